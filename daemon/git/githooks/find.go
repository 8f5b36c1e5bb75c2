package githooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api/wire"
	"polis/daemon/git"
	"polis/daemon/host/walk"
	"polis/internal/asuser"
)

// maxEntries bounds how many names of a directory are read.
const maxEntries = 1000

// names are the hooks that git runs in a checkout.
var names = map[string]bool{
	"applypatch-msg": true, "commit-msg": true, "post-applypatch": true, "post-checkout": true, "post-commit": true, "post-index-change": true,
	"post-merge": true, "post-rewrite": true, "pre-applypatch": true, "pre-auto-gc": true, "pre-commit": true, "pre-merge-commit": true,
	"pre-push": true, "pre-rebase": true, "prepare-commit-msg": true, "reference-transaction": true, "sendemail-validate": true,
}

// Project is a project's checkout.
type Project struct {
	Repo     git.Repo // run as its owner
	Path     string   // without symbolic links
	Git      string   // the git directory that its worktrees share
	UID, GID uint32   // the owner
	Open     func() (*os.File, error)
}

// Find returns the hooks that the owner's git runs in the project; nil if it runs none.
func Find(ctx context.Context, p Project, s Settings) (*wire.GitHooks, error) {
	top, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer top.Close()
	var h *wire.GitHooks
	err = asuser.Do(p.UID, p.GID, func() (err error) {
		h, err = p.find(top, s)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil // as git, which ignores a directory that it does not find
	}
	if err != nil {
		return nil, fmt.Errorf("find the git hooks of the project: %w", err)
	}
	if len(h.Names) == 0 {
		return nil, nil
	}
	if h.Place == wire.HooksInTree {
		others, err := p.Repo.Do(ctx, git.Cmd{Args: []string{"ls-files", "-z", "--others", "--", h.Dir}, WorkTree: p.Path, Dir: p.Path})
		if err != nil {
			return nil, fmt.Errorf("find the git hooks of the project: %w", err)
		}
		h.Tracked = len(others) == 0
	}
	return h, nil
}

// find is Find without git, with the rights of the owner.
func (p Project) find(top *os.File, s Settings) (*wire.GitHooks, error) {
	own := filepath.Join(p.Git, "hooks")
	at := own
	if s.HooksPath != "" {
		if at = s.HooksPath; !filepath.IsAbs(at) {
			at = filepath.Join(p.Path, at)
		}
	}
	h := &wire.GitHooks{Place: wire.HooksOutside, Dir: filepath.Clean(at)}
	var dir *os.File
	var err error
	switch rel, inTree := strings.CutPrefix(h.Dir, strings.TrimSuffix(p.Path, "/")+"/"); {
	case h.Dir == own:
		h.Place, h.Dir = wire.HooksInGit, ""
		dir, err = os.OpenFile(own, os.O_RDONLY|unix.O_DIRECTORY, 0)
	case inTree && rel != ".git" && !strings.HasPrefix(rel, ".git/"):
		h.Place, h.Dir = wire.HooksInTree, rel
		dir, err = below(top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	default:
		dir, err = os.OpenFile(h.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	h.Names, err = list(dir)
	return h, err
}

// list returns the names of the hooks in a directory, sorted. git runs no hook that its user may not execute.
func list(dir *os.File) (found []string, err error) {
	all, err := dir.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, name := range all {
		var st unix.Stat_t
		if names[name] && unix.Fstatat(int(dir.Fd()), name, &st, 0) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, nil
}

// below opens a path below a directory, through no symbolic link, and waits for no pipe.
func below(dir *os.File, path string, flags int) (*os.File, error) {
	return walk.Inside(dir, path, unix.OpenHow{Flags: uint64(flags | unix.O_NONBLOCK | unix.O_NOCTTY)})
}
