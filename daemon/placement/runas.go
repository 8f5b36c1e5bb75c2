package placement

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"polis/daemon/api"
	"polis/daemon/layout"
)

// FallbackID is the user and group of the agents of a project that belongs to root
// on a machine without the configured user; it is outside what distributions assign.
const FallbackID = 64923

// RunAs returns whom the agents of a workspace run as: the owner of the project, or
// the configured user if that is root. fallback reports that there is no such user and
// that FallbackID is used. It is never root.
func RunAs(root layout.Workspace, local, configured string) (uid, gid int, fallback bool, err error) {
	if fi, err := os.Stat(root.Bare()); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return int(st.Uid), int(st.Gid), false, nil
		}
	}
	if local == "" {
		local = root.Project()
	}
	fi, err := os.Stat(local)
	if err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return int(st.Uid), int(st.Gid), false, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, 0, false, api.Errorf(api.CodeWorkspaceInvalid, "read the owner of %s: %w", local, err)
	}
	u, err := user.Lookup(configured)
	if err != nil {
		return FallbackID, FallbackID, true, nil //nolint:nilerr // the caller warns
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil || uid <= 0 || gid < 0 {
		return 0, 0, false, api.Errorf(api.CodeInvalidConfig, "sandbox.user = %q: must not be root", u.Username)
	}
	return uid, gid, false, nil
}
