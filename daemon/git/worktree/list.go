package worktree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// Worktree is one agent's worktree as git's files describe it.
type Worktree struct {
	Agent  string
	Path   string // where the files are, and where the view is mounted
	Branch string // the branch it is on, short; empty if HEAD is detached
	GitDir string // its part of the shared repository
	// Broken is why the worktree cannot be used; nil if it can. A broken one does not affect the
	// others.
	Broken error
}

// maxGitFile bounds the small files of a git directory, in bytes.
const maxGitFile = 64 << 10

// List returns all worktrees, by name. It reads files an agent can write, as data: git's own list
// would follow the paths in them.
func (w *Workspace) List() ([]Worktree, error) {
	if err := w.guard(); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, open := range []func() (*os.File, error){w.openParts, func() (*os.File, error) { return os.Open(w.treesDir()) }} {
		entries, err := entries(open)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, api.Errorf(api.CodeWorktreeFailed, "list worktrees: %w", err)
		}
		for _, e := range entries {
			if api.CheckName(e.Name()) == nil {
				names[e.Name()] = true
			}
		}
	}
	list := make([]Worktree, 0, len(names))
	for name := range names {
		list = append(list, w.read(name))
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Agent < list[j].Agent })
	return list, nil
}

// entries reads a directory.
func entries(open func() (*os.File, error)) ([]fs.DirEntry, error) {
	dir, err := open()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// headRE matches what git accepts as a HEAD: a ref, or a commit if it is detached
// (gitrepository-layout(5)).
var headRE = regexp.MustCompile(`^(ref:\s*refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})$`)

// errAbsent: there is neither a directory nor a git directory.
var errAbsent = errors.New("there is no worktree")

// read reads the state of one worktree.
func (w *Workspace) read(agent string) Worktree {
	t := Worktree{Agent: agent, Path: w.tree(agent), GitDir: w.admin(agent)}
	_, noTree := isDir(t.Path)
	_, noAdmin := isDir(t.GitDir)
	switch {
	case errors.Is(noTree, fs.ErrNotExist) && errors.Is(noAdmin, fs.ErrNotExist):
		t.Broken = errAbsent
		return t
	case noAdmin != nil:
		t.Broken = fmt.Errorf("its part of the git directory is missing: %w", noAdmin)
		return t
	}
	root, err := w.openAdmin(agent)
	if err != nil {
		t.Broken = err
		return t
	}
	defer root.Close()
	head, err := readSmall(root, "HEAD")
	if err != nil {
		t.Broken = fmt.Errorf("read HEAD: %w", err)
		return t
	}
	head = strings.TrimSpace(head)
	if !headRE.MatchString(head) {
		t.Broken = errors.New("its HEAD is neither a branch nor a commit")
		return t
	}
	if ref, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok {
		t.Branch = ref
	}
	lock, err := readSmall(root, "locked")
	switch {
	case err == nil && strings.TrimSpace(lock) == initializing:
		t.Broken = ErrInterrupted
	case noTree != nil:
		t.Broken = fmt.Errorf("%w: %w", errNoDirectory, noTree)
	default:
		t.Broken = w.linked(t)
	}
	return t
}

// linked checks the .git file that makes a directory a worktree. It is not read through a mounted
// view: the shim guarantees what it serves.
func (w *Workspace) linked(t Worktree) error {
	if there, err := mounted(t.Path); err != nil || there {
		return err
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	link, err := readSmall(root, ".git")
	if err != nil {
		return fmt.Errorf("read .git: %w", err)
	}
	if strings.TrimSuffix(link, "\n") != "gitdir: "+t.GitDir {
		return errors.New("its .git leads elsewhere")
	}
	return nil
}

// readSmall reads a small regular file below root. It rejects a pipe or a device in its place
// without blocking on it.
func readSmall(root *os.Root, name string) (string, error) { return readText(root, name, maxGitFile) }

// readText reads a regular file of at most most bytes.
func readText(root *os.Root, name string, most int64) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return string(data), err
}
