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
	"polis/daemon/store"
	"polis/internal/pinned"
)

// ReadRecord returns the recorded identity of a workspace's project; os.ErrNotExist if none was recorded yet.
func (w *Workspace) ReadRecord() (pinned.Record, error) {
	r, err := w.readRecord()
	if err != nil && !errors.Is(err, fs.ErrNotExist) && api.CodeOf(err) != api.CodeWorkspaceInvalid {
		return r, api.Errorf(api.CodeProjectChanged, "read the recorded identity of the project of %s: %w", w.cfg.Workspace, err).
			WithHint("polisctl workspace move %s PATH records the project again", w.cfg.Workspace)
	}
	return r, err
}

// changed converts an error of package pinned.
func (w *Workspace) changed(r pinned.Record, err error) error {
	if err == nil || !errors.Is(err, pinned.ErrChanged) {
		return err
	}
	err = api.Errorf(api.CodeProjectChanged, "workspace %s: %w", w.cfg.Workspace, err).With("path", r.Path).
		WithHint("put the project back; if it was moved or cloned again on purpose: polisctl workspace move %s PATH", filepath.Base(w.cfg.Workspace))
	if w.cfg.Changed != nil {
		w.cfg.Changed(err)
	}
	return err
}

// Open returns the recorded project and a descriptor of its directory, PROJECT_CHANGED if another one is at its path.
// The caller closes the descriptor.
func (w *Workspace) Open() (pinned.Record, *os.File, error) {
	r, err := w.ReadRecord()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return r, nil, w.changed(r, fmt.Errorf("%w: nothing is recorded", pinned.ErrChanged))
		}
		return r, nil, err
	}
	dir, err := r.Open()
	if err != nil {
		return r, nil, w.changed(r, err)
	}
	if w.cfg.Changed != nil {
		w.cfg.Changed(nil)
	}
	return r, dir, nil
}

// Check reports what Open does.
func (w *Workspace) Check() error {
	_, dir, err := w.Open()
	if err != nil {
		return err
	}
	return dir.Close()
}

// pin compares the project with its record, and records the project of a workspace that has no record: a new one, or
// one of an earlier polis, which recorded only whom the agents run as. The name of the project is that of the last request
// whose path had symbolic links.
func (u *upper) pin(from source) (pinned.Record, error) {
	r, err := u.recorded()
	if err != nil || from.path != r.Path {
		return r, err
	}
	if named := namedBy(from.named, r.Path, r.UID); named != "" && named != r.Named {
		r.Named = named
		return r, u.save(r)
	}
	return r, nil
}

// recorded is the record of the project, of this boot.
func (u *upper) recorded() (pinned.Record, error) {
	r, err := u.w.ReadRecord()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u.record()
	case err != nil:
		return r, err
	}
	now, err := r.Refreshed()
	if err != nil {
		return r, u.w.changed(r, err)
	}
	if now.Dir == r.Dir && (now.Git == nil) == (r.Git == nil) && (r.Git == nil || *now.Git == *r.Git) {
		return r, nil
	}
	if r.Git == nil {
		now.Git = nil // it is recorded when a person has adopted it
	}
	return now, u.save(now)
}

// adopt records the .git of a project that had none. The caller's request is that of a person.
func (u *upper) adopt(r pinned.Record) (pinned.Record, error) {
	now, err := r.Refreshed()
	if err != nil {
		return r, u.w.changed(r, err)
	}
	return now, u.save(now)
}

func (u *upper) save(r pinned.Record) error {
	if err := store.WriteSummed(u.w.layout().ProjectRecord(), r); err != nil {
		return api.Errorf(api.CodeStateNotSaved, "record the project: %w", err)
	}
	return nil
}

// record records the project at the end of the workspace's link.
func (u *upper) record() (pinned.Record, error) {
	link := u.w.linkPath()
	path, err := filepath.EvalSymlinks(link)
	if err != nil {
		return pinned.Record{}, api.Errorf(api.CodeWorkspaceInvalid, "the project of %s: %w", u.spec.Workspace, err)
	}
	// polis made the link, to a path without links.
	to, unlinked := os.Readlink(link)
	if unlinked == nil && to != path {
		return pinned.Record{}, u.w.changed(pinned.Record{Path: to}, fmt.Errorf("%w: %s leads to %s now", pinned.ErrChanged, to, path))
	}
	r, err := pinned.Take(path)
	if err != nil {
		return r, u.w.untaken(path, err)
	}
	// A clone of polis is the agents' user's, regardless of who owns the repository that it is a clone of.
	if clone := unlinked != nil && r.UID == u.spec.UID; u.spec.Owner != nil && r.UID != *u.spec.Owner && !clone {
		return r, u.w.changed(r, fmt.Errorf("%w: %s belongs to uid %d, and the workspace to uid %d", pinned.ErrChanged, path, r.UID, *u.spec.Owner))
	}
	if err := u.w.placedFor(r); err != nil {
		return r, err
	}
	if u.spec.Plain {
		r.Git = nil
	}
	return r, u.save(r)
}

// untaken is the error of a project that cannot be recorded.
func (w *Workspace) untaken(path string, err error) error {
	if !errors.Is(err, pinned.ErrChanged) {
		return api.Errorf(api.CodeWorkspaceInvalid, "inspect the project: %w", err)
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "%s cannot be a project: %w", path, err).
		WithHint("each directory above a project must belong to root or to the owner of the project: move it, or chown it")
}

// Move records another directory as the project of the workspace. It must belong to the same owner.
func Move(ctx context.Context, spec Spec, path string) (Info, error) {
	u := &upper{spec: spec, w: Open(Config{Workspace: spec.Workspace, UID: spec.UID, GID: spec.GID, Git: spec.Git, Log: spec.Log})}
	if u.spec.Progress == nil {
		u.spec.Progress = func(string) {}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "the new place of the project: %w", err)
	}
	if w := realParent(spec.Workspace); within(filepath.Join(w, ".polis"), real) || within(real, w) && real != filepath.Join(w, "project") {
		return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "%s belongs to the workspace itself", real)
	}
	r, err := pinned.Take(real)
	if err != nil {
		return Info{}, u.w.untaken(real, err)
	}
	r.Named = namedBy(path, real, r.UID)
	owner := spec.Owner
	if was, err := u.w.ReadRecord(); err == nil {
		owner = &was.UID
	}
	if owner != nil && r.UID != *owner {
		return Info{}, api.Errorf(api.CodeWorkspaceInvalid, "%s belongs to uid %d, and the project of the workspace to uid %d", real, r.UID, *owner).
			WithHint("polisctl up --repo %s makes a workspace for it", real)
	}
	if err := u.w.placedFor(r); err != nil {
		return Info{}, err
	}
	if spec.Plain {
		r.Git = nil
	} else if err := u.sameHistory(ctx, r); err != nil {
		return Info{}, err
	}
	if err := u.save(r); err != nil {
		return Info{}, err
	}
	if fi, err := os.Lstat(u.w.linkPath()); err != nil || fi.Mode()&fs.ModeSymlink != 0 {
		if err := u.link(real); err != nil {
			return Info{}, err
		}
	}
	return u.run(ctx)
}

// sameHistory refuses a repository that has nothing of the workspace's target branch.
func (u *upper) sameHistory(ctx context.Context, r pinned.Record) error {
	p, err := u.w.look(ctx, r)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(u.w.bareDir()); err != nil {
		return nil //nolint:nilerr // the workspace has no branches
	}
	if p == nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "%s is not a git repository, and the project of the workspace is", r.Path)
	}
	target, err := u.w.Target(ctx)
	if err != nil {
		return err
	}
	roots, err := u.w.Bare().Line(ctx, "rev-list", "--max-parents=0", "--max-count=1", "refs/heads/"+target)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", target, err)
	}
	if _, err := p.Run(ctx, "cat-file", "-e", roots+"^{commit}"); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "%s lacks the first commit of branch %s: it is another repository", r.Path, target).
			WithHint("polisctl up --repo %s makes a workspace for it", r.Path)
	}
	return nil
}

// hasGit reports whether a directory has a .git, of whatever type.
func hasGit(dir *os.File) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(dir.Fd()), ".git", &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}
