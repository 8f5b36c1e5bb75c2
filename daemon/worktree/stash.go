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
	root, err := os.OpenRoot(private)
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the stash: %w", err)
	}
	defer root.Close()
	// O_NONBLOCK: the open of a FIFO must not block.
	f, err := root.OpenFile("refs/stash", os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if os.IsNotExist(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the stash: %w", err)
	}
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
