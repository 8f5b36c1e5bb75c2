package placement

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"polis/daemon/api"
	"polis/daemon/store/layout"
	"polis/internal/pinned"
)

// FallbackID is the user and group of the agents of a project that belongs to root
// on a machine without the configured user; it is outside what distributions assign.
const FallbackID = 64923

// Known is what was recorded of a workspace. The zero Known is that of a new one.
type Known struct {
	Record *pinned.Record // nil: none
	// UID and GID are whom its agents ran as; 0: not recorded.
	UID, GID int
}

// As is whom the agents of a workspace run as, and to whom its project belongs.
type As struct {
	UID, GID int
	Owner    uint32
	// Fallback: the configured user does not exist, and FallbackID is used.
	Fallback bool
}

// RunAs returns whom the agents of a workspace run as: the owner of the project, or the configured user if that is
// root. It is never root. What was recorded counts: the owner of a project can put another user's directory at its
// path. local is the project of a new workspace, "" for a clone.
func RunAs(root layout.Workspace, local, configured string, known Known) (As, error) {
	if known.UID == 0 {
		// The directory is in one of root's, so that its owner cannot exchange it.
		known.UID, known.GID = ownerOf(root.Bare())
	}
	if r := known.Record; r != nil && r.UID != 0 {
		gid := int(r.GID)
		if known.UID == int(r.UID) {
			gid = known.GID
		}
		return As{UID: int(r.UID), GID: gid, Owner: r.UID}, nil
	}
	if known.Record != nil {
		if known.UID != 0 {
			return As{UID: known.UID, GID: known.GID}, nil
		}
		return forRoot(configured)
	}
	if local == "" {
		local = root.Project()
	}
	uid, gid, err := ofProject(local)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return As{}, api.Errorf(api.CodeWorkspaceInvalid, "read the owner of %s: %w", local, err)
	case known.UID != 0:
		as := As{UID: known.UID, GID: known.GID, Owner: uint32(known.UID)}
		if instead, ferr := forRoot(configured); err == nil && uid == 0 && (known.UID == FallbackID || ferr == nil && known.UID == instead.UID) {
			as.Owner = 0
		}
		return as, nil
	case err == nil && uid != 0:
		return As{UID: uid, GID: groupOf(uid, gid), Owner: uint32(uid)}, nil
	}
	instead, ferr := forRoot(configured)
	if err != nil {
		instead.Owner = uint32(instead.UID) // a clone
	}
	return instead, ferr
}

// ofProject returns the owner of a project. It follows the links on the way to it, as a request for a new workspace
// means them.
func ofProject(path string) (uid, gid int, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return 0, 0, err
	}
	fi, err := os.Lstat(real)
	if err != nil {
		return 0, 0, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, errors.New("the system reports no owner")
	}
	return int(st.Uid), int(st.Gid), nil
}

// ownerOf returns the owner of a directory of polis', 0 if there is none.
func ownerOf(path string) (uid, gid int) {
	fi, err := os.Lstat(path)
	if err != nil || !fi.IsDir() {
		return 0, 0
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int(st.Uid), int(st.Gid)
}

// groupOf returns gid if the user is a member of that group, else the user's own group: a directory that is made in
// one with the set-group-ID bit belongs to a group that its owner need not be in.
func groupOf(uid, gid int) int {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return gid // a user without an account has no groups
	}
	if ids, err := u.GroupIds(); err == nil && slices.Contains(ids, strconv.Itoa(gid)) {
		return gid
	}
	own, err := strconv.Atoi(u.Gid)
	if err != nil {
		return gid
	}
	return own
}

// forRoot returns whom the agents of root's projects run as.
func forRoot(configured string) (As, error) {
	u, err := user.Lookup(configured)
	if err != nil {
		return As{UID: FallbackID, GID: FallbackID, Fallback: true}, nil //nolint:nilerr // the caller warns
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil || uid <= 0 || gid < 0 {
		return As{}, api.Errorf(api.CodeInvalidConfig, "sandbox.user = %q: must not be root", u.Username)
	}
	return As{UID: uid, GID: gid}, nil
}
