package maintain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// Bounds of what is read of the files agents write. Beyond them it is unknown which objects are
// needed, and none is removed.
const (
	maxNamedFile  = 8 << 20 // bytes
	maxNamedFiles = 20_000
	maxNamed      = 2_000_000 // ids
	maxDepth      = 8
)

// agent is the set of directories that one agent can write: their content is not trusted.
type agent struct {
	name     string
	git      string // its part of the shared repository
	private  string // its own copy of the rest
	objects  string // the objects it has not published
	notFound bool   // it has no such directory
}

// agents lists the agents that have directories.
func (m *Maintainer) agents() ([]agent, error) {
	parts := filepath.Join(m.Repo.Dir, "worktrees")
	names := map[string]bool{}
	for _, dir := range []string{parts, m.Private} {
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				names[e.Name()] = true
			}
		}
	}
	var out []agent
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a := agent{name: name, git: filepath.Join(parts, name)}
		if m.Private != "" {
			a.private = filepath.Join(m.Private, name)
			a.objects = filepath.Join(a.private, "objects")
		}
		if fi, err := os.Lstat(a.objects); err != nil || !fi.IsDir() {
			a.notFound = true
		}
		out = append(out, a)
	}
	return out, nil
}

// repo is the shared repository as the agent's git sees it.
func (m *Maintainer) repo(a agent) git.Repo {
	if a.notFound {
		return m.Repo
	}
	return m.Repo.Own(a.objects)
}

// named collects every object id in the files of an agent's git directory and
// its private one: its index, an ORIG_HEAD, the state of a rebase, a stash and its log.
func (a agent) named(ctx context.Context, hash int) (map[string]bool, error) {
	w := &collector{ids: map[string]bool{}, hash: hash}
	dirs := []string{a.git}
	if a.private != "" {
		// Everything else (hooks, submodules) does not concern this repository.
		dirs = append(dirs, filepath.Join(a.private, "refs"), filepath.Join(a.private, "logs"), filepath.Join(a.private, "worktrees"))
	}
	for _, d := range dirs {
		if err := w.dir(ctx, d); err != nil {
			return nil, err
		}
	}
	return w.ids, nil
}

// present returns the ids that are objects in repo.
func (m *Maintainer) present(ctx context.Context, repo git.Repo, ids map[string]bool) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var in strings.Builder
	for id := range ids {
		fmt.Fprintln(&in, id)
	}
	var out []string
	err := m.lines(ctx, repo, git.Cmd{Args: []string{"cat-file", "--batch-check=%(objectname)"}, Stdin: strings.NewReader(in.String())}, func(line string) {
		if git.IsOID(line) {
			out = append(out, line)
		}
	})
	return out, err
}

type collector struct {
	ids   map[string]bool
	files int
	hash  int // bytes of an id
}

// dir reads the files below path, following no link.
func (c *collector) dir(ctx context.Context, path string) error {
	top, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	return fdtree.Walk(ctx, int(top.Fd()), func(e *fdtree.Entry) error {
		switch {
		case e.Depth > maxDepth+1:
			return fmt.Errorf("%q below %s is nested too deeply", e.Name, path)
		case !e.IsRegular():
			return nil
		}
		if e.Name == "index" || strings.HasPrefix(e.Name, "sharedindex.") {
			return c.index(e)
		} else if strings.HasPrefix(e.Name, "index.") || strings.HasPrefix(e.Name, "next-index-") {
			return nil // being written: its objects were touched just now
		}
		if c.files++; c.files > maxNamedFiles {
			return fmt.Errorf("%s has more than %d files", path, maxNamedFiles)
		}
		return c.file(e)
	})
}

// index reads an index.
func (c *collector) index(e *fdtree.Entry) error {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), e.Name)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Size() == 0 {
		return err // git accepts an empty index
	}
	if err := readIndex(f, c.hash, func(id string) { c.ids[id] = true }); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	if len(c.ids) > maxNamed {
		return fmt.Errorf("%s: the worktree names more than %d objects", e.Name, maxNamed)
	}
	return nil
}

func (c *collector) file(e *fdtree.Entry) error {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", e.Name, err)
	}
	f := os.NewFile(uintptr(fd), e.Name)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxNamedFile+1))
	if err != nil {
		return err
	}
	if len(b) > maxNamedFile {
		return fmt.Errorf("%q has more than %d bytes", e.Name, maxNamedFile)
	}
	scan(b, func(id string) { c.ids[id] = true })
	if len(c.ids) > maxNamed {
		return fmt.Errorf("the worktree names more than %d objects", maxNamed)
	}
	return nil
}

// scan finds the runs of 40 or 64 hexadecimal digits that stand alone.
func scan(b []byte, each func(string)) {
	hex := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
	for i := 0; i < len(b); {
		if !hex(b[i]) {
			i++
			continue
		}
		j := i
		for j < len(b) && hex(b[j]) {
			j++
		}
		if n := j - i; (n == 40 || n == 64) && strings.Trim(string(b[i:j]), "0") != "" {
			each(string(b[i:j]))
		}
		i = j
	}
}
