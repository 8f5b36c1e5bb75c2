package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/host/private"
	"polis/daemon/store/layout"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// internalDir is the repository of saved work. It borrows the shared repository's objects, never
// the other way round, so that no agent's git finds any of it.
func (w *Workspace) internalDir() string { return layout.Workspace(w.cfg.Workspace).Internal() }

// Internal is that repository, as its owner.
func (w *Workspace) Internal() git.Repo {
	return git.Repo{Runner: w.runner(w.cfg.UID, w.cfg.GID), Dir: w.internalDir()}
}

// ownDir is where an agent's git keeps the objects that no ref leads to.
func (w *Workspace) ownDir(agent string) string {
	return filepath.Join(layout.Workspace(w.cfg.Workspace).Private(agent), "objects")
}

// makeOwnDir makes the directory of the objects that only the agent has.
func (w *Workspace) makeOwnDir(agent string) error {
	all := w.layout().Privates()
	if err := private.Within(all); err != nil {
		return err
	}
	root, err := os.OpenRoot(all)
	if err != nil {
		return err
	}
	defer root.Close()
	own, err := filepath.Rel(all, w.ownDir(agent))
	if err != nil {
		return err
	}
	for _, dir := range []string{agent, own, filepath.Join(own, "pack")} {
		err := root.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = w.giveDir(root, dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// of is the shared repository with the objects that only the agent has.
func (w *Workspace) of(agent string) git.Repo {
	bare, own := w.Bare(), w.ownDir(agent)
	if fi, err := os.Lstat(own); err != nil || !fi.IsDir() {
		return bare // it has never had a view
	}
	return bare.Own(own)
}

// internal creates what is missing beside the shared repository: the internal one, and the name
// by which agents' gits find the shared objects.
func (u *upper) internal(ctx context.Context) error {
	fail := func(err error) error {
		return api.Errorf(api.CodeWorkspaceInvalid, "make the internal repository: %w", err)
	}
	if err := u.published(); err != nil {
		return fail(err)
	}
	dir := u.w.internalDir()
	if _, err := os.Lstat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	format, err := u.w.Bare().Line(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return fail(err)
	}
	tmp, err := u.scratch("bare-")
	if err != nil {
		return err
	}
	made := filepath.Join(tmp, "repo.git")
	_, err = u.w.Internal().Runner.Run(ctx, git.Cmd{
		Args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format, "--initial-branch=none", "--", made}, Dir: tmp, Write: []string{tmp}})
	if err == nil {
		err = u.close(made, format)
	}
	if err == nil {
		err = u.place(tmp, "repo.git", dir)
	}
	if err = errors.Join(err, fdtree.Cleanup(tmp)); err != nil {
		return fail(err)
	}
	u.changed = true
	return nil
}

// close makes a repository just made one that nobody but its owner and root can enter, and that
// borrows the objects of the shared one.
func (u *upper) close(path, format string) error {
	root, err := openScratch(path)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	alternates, err := root.OpenFile("objects/info/alternates", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = alternates.WriteString("../../" + filepath.Base(u.w.bareDir()) + "/objects\n")
	return errors.Join(err, alternates.Close(), dir.Chmod(0o700), ownConfig(root, format))
}

// published makes the link to the shared objects. In a sandbox they are mounted there: the
// directory in the shared repository is the agent's own there.
func (u *upper) published() error {
	link, to := layout.Workspace(u.w.cfg.Workspace).Published(), filepath.Join(filepath.Base(u.w.bareDir()), "objects")
	if now, err := os.Readlink(link); err == nil && now == to {
		return nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(to, link)
}

// moveRemotes does the same for remote-tracking refs; their objects stay.
func (w *Workspace) moveRemotes(ctx context.Context) error {
	bare := w.Bare()
	refs, err := bare.Refs(ctx, "refs/polis/remotes")
	if err != nil || len(refs) == 0 {
		return err
	}
	if err := w.Internal().UpdateAll(ctx, refs, "polis: fetched"); err != nil {
		return fmt.Errorf("move what is known of remotes: %w", err)
	}
	for name, id := range refs {
		if err := bare.Delete(ctx, name, id); err != nil {
			return fmt.Errorf("move what is known of remotes: %w", err)
		}
	}
	return nil
}

// moveTrash moves what an earlier version saved in the shared repository to the internal one:
// first the objects, then the refs, then it deletes them from the shared one. An interrupted move
// continues at the next start.
func (w *Workspace) moveTrash(ctx context.Context) error {
	bare, internal := w.Bare(), w.Internal()
	trash, err := bare.Refs(ctx, strings.TrimSuffix(trashPrefix, "/"))
	if err != nil || len(trash) == 0 {
		return err
	}
	if err := w.guardDir(w.internalDir()); err != nil {
		return err
	}
	all, err := bare.Refs(ctx)
	if err != nil {
		return err
	}
	var want, not []string
	for name, id := range all {
		if trash[name] != "" {
			want = append(want, id)
		} else {
			not = append(not, id)
		}
	}
	if err := git.Send(ctx, bare, internal, want, not); err != nil {
		return fmt.Errorf("move the trash: %w", err)
	}
	failpoint.Hit("trash:copied")
	if err := internal.UpdateAll(ctx, trash, "polis: saved in the trash"); err != nil {
		return fmt.Errorf("move the trash: %w", err)
	}
	failpoint.Hit("trash:moved")
	for name, id := range trash {
		if err := bare.Delete(ctx, name, id); err != nil {
			return fmt.Errorf("move the trash: %w", err)
		}
	}
	w.cfg.Log.Info("trash moved to the internal repository", "op", "trash", "path", w.internalDir(), "refs", len(trash))
	return nil
}
