package worktree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
)

const (
	// maxPrivateRefs bounds the refs that are only an agent's, maxPrivateDirs the directories that are read
	// for them, and maxPrivateDepth how deep these are.
	maxPrivateRefs  = 4096
	maxPrivateDirs  = 4096
	maxPrivateDepth = 32
	// maxRefText is the most bytes of a ref's file that are read: an object id has 40 or 64.
	maxRefText = 100
)

// stashRef is the ref of the stash.
const stashRef = "refs/stash"

// errManyRefs is returned for an agent that has more refs of its own than are read.
var errManyRefs = fmt.Errorf("it has more than %d refs of its own", maxPrivateRefs)

// PrivateStash returns the object id of the tip of an agent's own stash, "" if it has none. Git of the shared
// repository does not see that stash. private is the agent's private git directory.
func PrivateStash(private string) (string, error) {
	dir, err := openPrivate(private)
	if dir == nil || err != nil {
		return "", err
	}
	defer dir.Close()
	return readPrivateRef(int(dir.Fd()), stashRef)
}

// PrivateRefs returns the refs that only an agent has, with the objects that they name: its stash, and what its
// tools keep in namespaces of theirs. private is the agent's private git directory, whose content the agent can
// change at any time. What is not a regular file with an object id is no ref. An error means that they were not
// read completely.
func PrivateRefs(private string) (map[string]string, error) {
	dir, err := openPrivate(private)
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	refs := map[string]string{}
	dirs := []string{"refs"}
	for n := 0; len(dirs) > 0; n++ {
		if n == maxPrivateDirs {
			return nil, errManyRefs
		}
		at := dirs[0]
		dirs = dirs[1:]
		below, files, err := listPrivate(int(dir.Fd()), at)
		if err != nil {
			return nil, err
		}
		if strings.Count(at, "/") < maxPrivateDepth {
			dirs = append(dirs, below...)
		}
		for _, name := range files {
			id, err := readPrivateRef(int(dir.Fd()), name)
			if err != nil {
				return nil, err
			}
			if id != "" {
				refs[name] = id
			}
			if len(refs) > maxPrivateRefs {
				return nil, errManyRefs
			}
		}
	}
	return refs, nil
}

// openPrivate opens the directory, and returns nil if there is none.
func openPrivate(private string) (*os.File, error) {
	dir, err := os.Open(private)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the agent has had no view yet
	}
	if err != nil {
		return nil, fmt.Errorf("read the refs: %w", err)
	}
	return dir, nil
}

// openPrivateAt opens a name below the private directory without following a link, and without waiting for a FIFO. A name
// that is not there, or is something else, is nil.
func openPrivateAt(dir int, name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: flags | unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EXDEV):
		return nil, nil //nolint:nilnil // ENXIO: a socket
	case err != nil:
		return nil, fmt.Errorf("read the refs: %w", &os.PathError{Op: "openat2", Path: name, Err: err})
	}
	return os.NewFile(uintptr(fd), name), nil
}

// listPrivate lists a directory of refs.
func listPrivate(dir int, at string) (dirs, files []string, err error) {
	f, err := openPrivateAt(dir, at, unix.O_DIRECTORY)
	if f == nil || err != nil {
		return nil, nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxPrivateRefs + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("read the refs: %w", err)
	}
	if len(entries) > maxPrivateRefs {
		return nil, nil, errManyRefs
	}
	for _, e := range entries {
		name := path.Join(at, e.Name())
		switch {
		case e.IsDir() && at == "refs" && sharedSpace(e.Name()):
		case e.IsDir():
			dirs = append(dirs, name)
		case e.Type().IsRegular() && git.CheckBranch(strings.TrimPrefix(name, "refs/")) == nil:
			files = append(files, name)
		}
	}
	return dirs, files, nil
}

// sharedSpace reports whether a namespace is in the shared repository: a directory of its name among the agent's own
// files has no effect.
func sharedSpace(name string) bool {
	switch name {
	case "heads", "tags", "notes", "remotes", "polis":
		return true
	}
	return false
}

// readPrivateRef reads one ref; "" if it is none.
func readPrivateRef(dir int, name string) (string, error) {
	f, err := openPrivateAt(dir, name, 0)
	if f == nil || err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRefText))
	if err != nil {
		return "", fmt.Errorf("read the refs: %w", err)
	}
	oid := strings.TrimSpace(string(b))
	if !git.IsOID(oid) {
		return "", nil
	}
	return oid, nil
}

// maxPrivateTrees bounds the names that PrivateWorktrees returns.
const maxPrivateTrees = 100

// PrivateWorktrees returns the names of the worktrees that an agent made itself, by its private git directory.
func PrivateWorktrees(private string) ([]string, error) {
	dir, err := openPrivate(private)
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := openPrivateAt(int(dir.Fd()), "worktrees", unix.O_DIRECTORY)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxPrivateTrees)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the worktrees of its own: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
