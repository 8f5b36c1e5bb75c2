package daemon

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/worktree"
)

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// gc removes expired refs and directories from the trash of one workspace.
func (w *workspace) gc(ctx context.Context, before time.Time, dry bool, resp *api.GCResponse) error {
	refs, err := w.git.Trash(ctx, "")
	if err != nil {
		return err
	}
	put := func(e api.TrashEntry, drop func() error) error {
		e.Workspace = w.agents.Name
		if !e.Time.Before(before) {
			resp.Kept = append(resp.Kept, e)
			return nil
		}
		if !dry {
			if err := drop(); err != nil {
				return err
			}
		}
		resp.Removed = append(resp.Removed, e)
		return nil
	}
	for _, t := range refs {
		size, err := w.git.TrashSize(ctx, t.Ref)
		if err != nil {
			return err
		}
		e := api.TrashEntry{Agent: t.Agent, Ref: t.Ref, Branch: t.Branch, Time: t.Time, Bytes: size}
		if err := put(e, func() error { return w.git.DropTrash(ctx, t) }); err != nil {
			return err
		}
	}
	dirs, err := w.git.TrashDirs()
	if err != nil {
		return err
	}
	for _, t := range dirs {
		size, err := worktree.DirSize(ctx, t.Path)
		if err != nil {
			return api.Errorf(api.CodeInternal, "measure %s: %w", t.Path, err)
		}
		e := api.TrashEntry{Agent: t.Agent, Path: t.Path, Time: t.Time, Bytes: size}
		if err := put(e, func() error { return w.git.DropTrashDir(ctx, t) }); err != nil {
			return err
		}
	}
	return nil
}
