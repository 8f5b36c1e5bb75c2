package environment

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"polis/daemon/setting"
	"polis/daemon/shim/wire"
)

// remoteTool returns the mount of polisctl, which is the remote helper of git in a sandbox
// (gitremote-helpers(7)).
func remoteTool() (setting.Mount, error) {
	self, err := os.Executable()
	if err != nil {
		return setting.Mount{}, err
	}
	for _, p := range []string{filepath.Join(filepath.Dir(self), "polisctl"), "/usr/bin/polisctl", "/usr/local/bin/polisctl"} {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
			return setting.Mount{Source: p, Dest: wire.ToolPath, ReadOnly: true}, nil
		}
	}
	return setting.Mount{}, fmt.Errorf("polisctl is neither beside polisd nor in /usr/bin: %w", fs.ErrNotExist)
}
