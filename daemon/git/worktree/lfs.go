package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git/lfs"
	"polis/internal/asuser"
)

const (
	// lfsObjects is where Git LFS keeps objects, in the git directory that all worktrees share: in an agent's own part
	// of it, and in that of the project.
	lfsObjects = "lfs/objects"
	// annexObjects is where git-annex keeps contents. polis does not read them.
	annexObjects = "annex/objects"
	// maxPointers bounds the blobs that are read as pointers for one merge.
	maxPointers = 200_000
)

// ownData opens a directory in an agent's own part of the git directory; fs.ErrNotExist if it is missing.
func (w *Workspace) ownData(agent, name string) (*os.File, error) {
	all, err := os.OpenRoot(w.layout().Privates())
	if err != nil {
		return nil, err
	}
	defer all.Close()
	dir, err := all.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openBelow(dir, agent+"/"+name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// lfsDir returns the directory of the project's LFS objects.
func (p *Project) lfsDir(ctx context.Context) string {
	common := p.CommonDir()
	storage := p.setting(ctx, "--get", "--type=path", "lfs.storage")
	switch {
	case storage == "":
		storage = filepath.Join(common, "lfs")
	case !filepath.IsAbs(storage):
		storage = filepath.Join(common, storage)
	}
	return filepath.Join(storage, "objects")
}

// LFSObjects returns the directory of the project's LFS objects, which agents may read; "" if there is none.
func (w *Workspace) LFSObjects(ctx context.Context, p *Project) (string, error) {
	dir := p.lfsDir(ctx)
	err := p.openLFS(dir, false, func(*os.File) error { return nil })
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return dir, err
}

// openLFS calls use with the directory of the project's LFS objects, with the rights of the project's owner. make makes
// the directory, if only it or the one above it is missing.
func (p *Project) openLFS(dir string, makes bool, use func(*os.File) error) error {
	return asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		if makes {
			for _, d := range []string{filepath.Dir(dir), dir} {
				var above unix.Stat_t // its mode is that of what the owner's programs make
				if err := unix.Stat(filepath.Dir(d), &above); err != nil {
					return &os.PathError{Op: "stat", Path: filepath.Dir(d), Err: err}
				}
				if err := unix.Mkdir(d, above.Mode&0o777); err != nil && !errors.Is(err, unix.EEXIST) {
					return &os.PathError{Op: "mkdir", Path: d, Err: err}
				}
			}
		}
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: dir, Err: err}
		}
		f := os.NewFile(uintptr(fd), dir)
		defer f.Close()
		return use(f)
	})
}

// BringLFS copies the LFS objects that the commits of revs name, and only an agent has, to the project. revs are as for
// git.Repo.Introduced.
func (w *Workspace) BringLFS(ctx context.Context, agent string, revs ...string) (n int, err error) {
	if api.CheckName(agent) != nil {
		return 0, nil // a merge of no agent's
	}
	own, err := w.ownData(agent, lfsObjects)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open the LFS objects of the agent: %w", err)
	}
	defer own.Close()
	ids := map[string]bool{}
	err = w.Bare().Introduced(ctx, revs, func(_, id string) error {
		if ids[id] = true; len(ids) > maxPointers*10 {
			return fmt.Errorf("the commits have more than %d files", maxPointers*10)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	pointers, err := w.pointersIn(ctx, ids)
	if err != nil || len(pointers) == 0 {
		return 0, err
	}
	p, err := w.Project(ctx)
	if err != nil || p == nil {
		return 0, err
	}
	dir := p.lfsDir(ctx)
	var bring []lfs.Pointer
	for _, at := range pointers {
		has, err := lfs.Has(own, lfs.Pointer{OID: at.OID, Size: at.Size})
		if err != nil {
			return 0, err
		}
		if has {
			bring = append(bring, at)
		}
	}
	if len(bring) == 0 {
		return 0, nil
	}
	err = p.openLFS(dir, true, func(to *os.File) error {
		for _, at := range bring {
			if err := lfs.Copy(ctx, own, to, at); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err == nil {
		w.cfg.Log.Info("LFS objects copied to the project", "agent", agent, "op", "merge", "path", dir, "objects", n)
	}
	return n, err
}
