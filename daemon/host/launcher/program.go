package launcher

import (
	"fmt"
	"os"
	"path/filepath"

	"polis/daemon/api"
)

// installed are the directories where packages install polis-shim.
var installed = []string{"/usr/lib/polis", "/usr/local/lib/polis"}

// FindShim returns the path of polis-shim: configured if it is not "", else beside this program, else
// where a package installs it.
func FindShim(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own program: %w", err)
	}
	for _, dir := range append([]string{filepath.Dir(self)}, installed...) {
		p := filepath.Join(dir, "polis-shim")
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", api.Errorf(api.CodeInvalidConfig, "polis-shim is neither beside polisd nor in %s", installed[0]).WithHint("set shim = \"/path/to/polis-shim\" in polisd.toml")
}
