package maintain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// Bounds of what is read of the files agents write. Beyond them it cannot be
// told what is needed, and nothing is removed.
const (
	maxNamedFile  = 8 << 20 // bytes
	maxNamedFiles = 20_000
	maxNamed      = 500_000 // ids
	maxDepth      = 8
)

// named collects every object id in the files of the worktrees' git
// directories and the agents' private ones, as far as the objects exist: an
// ORIG_HEAD, the state of a rebase, a stash and its log.
func (m *Maintainer) named(ctx context.Context) ([]string, error) {
	w := &collector{ids: map[string]bool{}}
	if err := w.dir(ctx, filepath.Join(m.Repo.Dir, "worktrees")); err != nil {
		return nil, err
	}
	for _, d := range m.Private {
		// What else is there (hooks, submodules) is not of this repository.
		for _, sub := range []string{"refs", "logs"} {
			if err := w.dir(ctx, filepath.Join(d, sub)); err != nil {
				return nil, err
			}
		}
	}
	if len(w.ids) == 0 {
		return nil, nil
	}
	return m.present(ctx, w.ids)
}

// present asks git which ids are objects.
func (m *Maintainer) present(ctx context.Context, ids map[string]bool) ([]string, error) {
	var in strings.Builder
	for id := range ids {
		fmt.Fprintln(&in, id)
	}
	var out []string
	err := m.lines(ctx, git.Cmd{Args: []string{"cat-file", "--batch-check=%(objectname)"}, Stdin: strings.NewReader(in.String())}, func(line string) {
		if git.IsOID(line) {
			out = append(out, line)
		}
	})
	return out, err
}

type collector struct {
	ids   map[string]bool
	files int
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
		if e.Name == "index" || strings.HasPrefix(e.Name, "index.") {
			return nil // git reads the index itself
		}
		if c.files++; c.files > maxNamedFiles {
			return fmt.Errorf("%s has more than %d files", path, maxNamedFiles)
		}
		return c.file(e)
	})
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
		return fmt.Errorf("the worktrees name more than %d objects", maxNamed)
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
