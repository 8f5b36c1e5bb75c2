package environment

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
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

// adapterTool returns the mount of the program that speaks the protocols of agents' programs, if it
// is installed.
func adapterTool() (setting.Mount, bool) {
	self, err := os.Executable()
	if err != nil {
		return setting.Mount{}, false
	}
	dir, name := filepath.Dir(self), filepath.Base(wire.AdapterPath)
	for _, p := range []string{filepath.Join(dir, name), filepath.Join(dir, "../lib/polis", name), "/usr/lib/polis/" + name, "/usr/local/lib/polis/" + name} {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
			return setting.Mount{Source: filepath.Clean(p), Dest: wire.AdapterPath, ReadOnly: true}, true
		}
	}
	return setting.Mount{}, false
}
