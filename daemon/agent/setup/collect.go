package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
)

const (
	maxOutputs  = 100_000 // topmost names that a run makes
	listedNames = 256     // of them in a record
	listedDrops = 20      // dropped names in a record
)

// collected is what a run has made.
type collected struct {
	outputs []string // the first of them
	sum     string
	bytes   int64
	files   int64
	dropped int      // names that are not part of it
	drops   []string // the first of them
}

// collect moves the outputs, names as git lists them, from the directory upper to tree, both in dir.
// What is left in upper is dropped.
func collect(ctx context.Context, dir string, outputs []string, clean cleaning) (c collected, err error) {
	if len(outputs) > maxOutputs {
		return c, fmt.Errorf("git ignores %d names that the command made: at most %d; ignore their directories", len(outputs), maxOutputs)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return c, err
	}
	defer root.Close()
	m := mover{root: root, uid: clean.uid, gid: clean.gid, made: map[string]bool{}}
	if err := m.mkdir("tree"); err != nil {
		return c, err
	}
	for _, name := range outputs {
		clean := strings.TrimSuffix(name, "/")
		if !filepath.IsLocal(clean) || clean == "." {
			return c, fmt.Errorf("git lists the name %q", name)
		}
		if err := m.move(clean); err != nil {
			return c, err
		}
		if len(c.outputs) < listedNames {
			c.outputs = append(c.outputs, name)
		}
	}
	var s *sums
	if c.sum, s, err = sum(ctx, filepath.Join(dir, "tree"), &clean); err != nil {
		return c, err
	}
	c.bytes, c.files, c.dropped = s.bytes, s.files, s.removed
	return c, c.left(ctx, filepath.Join(dir, "upper"))
}

// mover renames below one directory. No process writes there.
type mover struct {
	root     *os.Root
	uid, gid int
	made     map[string]bool
}

// mkdir makes a directory of the user's.
func (m *mover) mkdir(name string) error {
	if m.made[name] {
		return nil
	}
	if err := m.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if os.Geteuid() == 0 {
		if err := m.root.Lchown(name, m.uid, m.gid); err != nil {
			return err
		}
	}
	m.made[name] = true
	return nil
}

func (m *mover) move(name string) error {
	at := "tree"
	for _, part := range strings.Split(path.Dir(name), "/") {
		if part == "." {
			break
		}
		at += "/" + part
		if err := m.mkdir(at); err != nil {
			return err
		}
	}
	return m.root.Rename("upper/"+name, "tree/"+name)
}

// left counts what is in upper yet: changes of tracked files, files that git does not ignore, and
// whiteouts.
func (c *collected) left(ctx context.Context, upper string) error {
	top, err := os.OpenFile(upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	return fdtree.Walk(ctx, int(top.Fd()), func(e *fdtree.Entry) error {
		if e.IsDir() {
			return nil
		}
		c.dropped++
		if len(c.drops) < listedDrops {
			c.drops = append(c.drops, e.Name)
		}
		return nil
	})
}

// usage returns how many bytes a directory has on the disk. It fails if there are more files than a
// result may have.
func usage(ctx context.Context, dir string) (bytes int64, err error) {
	top, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer top.Close()
	files := 0
	err = fdtree.Walk(ctx, int(top.Fd()), func(e *fdtree.Entry) error {
		if files++; files > maxFiles {
			return errTooManyFiles
		}
		bytes += e.Stat.Blocks * 512
		return nil
	})
	return bytes, err
}

var errTooManyFiles = fmt.Errorf("it has more than %d files", maxFiles)
