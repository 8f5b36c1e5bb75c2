package githooks

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api/wire"
	"polis/internal/asuser"
)

const (
	maxDepth = 4       // directories in each other
	maxFiles = 1000    // in all
	maxBytes = 8 << 20 // in all
)

// File is a file of a directory with hooks.
type File struct {
	Path string // below the directory
	Exec bool
	Data []byte
}

// Source is where the files of hooks are read.
type Source struct {
	// Tree is the open checkout of the project, at Path, and Git its open git directory, the common one.
	Tree, Git *os.File
	Path      string
	UID, GID  uint32 // the owner
	// Readable reports whether the agent may read a path of the checkout.
	Readable func(path string) bool
}

// Source opens where the files of the hooks are. Each path of the checkout is readable.
func (p Project) Source() (Source, error) {
	s := Source{Path: p.Path, UID: p.UID, GID: p.GID, Readable: func(string) bool { return true }}
	var err error
	if s.Tree, err = p.Open(); err != nil {
		return s, err
	}
	err = asuser.Do(p.UID, p.GID, func() (err error) {
		s.Git, err = os.OpenFile(p.Git, os.O_RDONLY|unix.O_DIRECTORY, 0)
		return err
	})
	if err != nil {
		return s, errors.Join(err, s.Tree.Close())
	}
	return s, nil
}

// Close closes the directories.
func (s Source) Close() error { return errors.Join(s.Tree.Close(), s.Git.Close()) }

// Files reads the directory with the hooks, as the owner of the project. A hook that cannot be given to the agent is a
// script in its place that fails with the reason: no hook is left out silently.
func (s Source) Files(h *wire.GitHooks) ([]File, error) {
	r := &reader{Source: s, hooks: h, bytes: maxBytes, files: maxFiles}
	err := asuser.Do(s.UID, s.GID, func() error {
		at, name := s.Git, "hooks"
		if h.Place == wire.HooksInTree {
			at, name = s.Tree, h.Dir
		}
		dir, err := below(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer dir.Close()
		return r.directory(dir, "", maxDepth)
	})
	return r.found, err
}

type reader struct {
	Source
	hooks *wire.GitHooks
	found []File
	bytes int64
	files int
}

var errTooLarge = errors.New("the directory with the hooks has more than 1000 files or 8 MiB")

func (r *reader) directory(dir *os.File, path string, depth int) error {
	all, err := dir.Readdirnames(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range all {
		if r.files--; r.files < 0 {
			return errTooLarge
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // it was removed a moment ago
		}
		at := filepath.Join(path, name)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if depth > 1 {
				err = r.enter(dir, name, at, depth-1)
			}
		case unix.S_IFLNK:
			err = r.link(dir, name, at)
		default:
			err = r.file(dir, name, at, r.inTree(at))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inTree is the path in the checkout of a file of the directory; "" if it is in none.
func (r *reader) inTree(path string) string {
	if r.hooks.Place != wire.HooksInTree {
		return ""
	}
	return filepath.Join(r.hooks.Dir, path)
}

func (r *reader) enter(dir *os.File, name, path string, depth int) error {
	sub, err := below(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil //nolint:nilerr // its owner may not read it, or it was removed a moment ago
	}
	defer sub.Close()
	return r.directory(sub, path, depth)
}

// file reads the file name of dir. tree is its path in the checkout; "" if it is in none.
func (r *reader) file(dir *os.File, name, path, tree string) error {
	if tree != "" && !r.Readable(tree) {
		return r.replace(path, "the rules of this agent withhold it")
	}
	f, err := below(dir, name, unix.O_RDONLY)
	if err != nil {
		return r.replace(path, "its file cannot be read")
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return r.replace(path, "it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, r.bytes+1))
	if err != nil {
		return err
	}
	if r.bytes -= int64(len(data)); r.bytes < 0 {
		return errTooLarge
	}
	r.found = append(r.found, File{Path: path, Exec: fi.Mode()&0o111 != 0, Data: data})
	return nil
}

// link reads what a symbolic link in .git/hooks leads to in the checkout: "ln -s ../../scripts/pre-commit". Only the
// owner makes links there. No other link is followed: one in the checkout can be an agent's, and lead to what no agent
// may read.
func (r *reader) link(dir *os.File, name, path string) error {
	const outside = "it is a symbolic link that leads to no file of the repository"
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil || r.hooks.Place != wire.HooksInGit || path != name {
		return r.replace(path, outside)
	}
	to := string(buf[:n])
	if !filepath.IsAbs(to) {
		to = filepath.Join(r.Path, ".git/hooks", to) // a linked worktree has no directory there
	}
	tree, ok := strings.CutPrefix(filepath.Clean(to), r.Path+"/")
	if !ok || tree == ".git" || strings.HasPrefix(tree, ".git/") {
		return r.replace(path, outside)
	}
	return r.file(r.Tree, tree, path, tree)
}

// replace has a script that fails in place of a hook; another file is left out.
func (r *reader) replace(path, why string) error {
	if names[path] {
		r.found = append(r.found, File{Path: path, Exec: true, Data: []byte("#!/bin/sh\necho 'polis: the hook " + path + " of this project cannot run here: " + why + "' >&2\nexit 1\n")})
	}
	return nil
}
