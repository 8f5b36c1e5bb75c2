package worktree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
)

// maxStash is the most bytes of refs/stash that are read: an object id has 40 or 64.
const maxStash = 100

// PrivateStash returns the object id of the tip of an agent's own stash, "" if it has none. Git of
// the shared repository does not see that stash. private is the agent's private git directory,
// whose content the agent can change at any time. What is not a regular file with an object id is
// no stash. An error means that the stash was not read.
func PrivateStash(private string) (string, error) {
	dir, err := os.Open(private)
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the stash: %w", err)
	}
	defer dir.Close()
	// O_NONBLOCK: the open of a FIFO must not block. os.Root resolves a symlink, and fails on one
	// that leads outside: an agent could then not be removed.
	fd, err := unix.Openat2(int(dir.Fd()), "refs/stash", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return "", nil // ENXIO: a socket
	case err != nil:
		return "", fmt.Errorf("read the stash: %w", &os.PathError{Op: "openat2", Path: "refs/stash", Err: err})
	}
	f := os.NewFile(uintptr(fd), "refs/stash")
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxStash))
	if err != nil {
		return "", fmt.Errorf("read the stash: %w", err)
	}
	oid := strings.TrimSpace(string(b))
	if !git.IsOID(oid) {
		return "", nil
	}
	return oid, nil
}
