package environment

import (
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

// Account returns the user name and the home directory that uid has in a sandbox. A uid without an
// account is called polis. A home that would cover a directory of the system is replaced.
func Account(uid int) (name, home string) {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		name, home = u.Username, u.HomeDir
	} else {
		name = "polis"
	}
	if !filepath.IsAbs(home) || slices.Contains([]string{"/", "/nonexistent", "/usr/sbin", "/run/polis", "/var/lib/polis"}, filepath.Clean(home)) {
		home = "/home/" + name
	}
	return name, home
}
