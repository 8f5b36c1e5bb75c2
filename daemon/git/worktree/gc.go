package worktree

import (
	"context"
	"time"

	"polis/daemon/api"
)

// GC deletes the saved work in the trash that is older than before, and returns what it deleted
// and what it kept, without the name of the workspace. With dryRun it deletes nothing and returns
// the same. After an error, removed lists what was deleted up to there.
func (w *Workspace) GC(ctx context.Context, before time.Time, dryRun bool) (removed, kept []api.TrashEntry, err error) {
	refs, err := w.Trash(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	sort := func(e api.TrashEntry, drop func() error) error {
		if !e.Time.Before(before) {
			kept = append(kept, e)
			return nil
		}
		if !dryRun {
			if err := drop(); err != nil {
				return err
			}
		}
		removed = append(removed, e)
		return nil
	}
	for _, t := range refs {
		size, err := w.trashSize(ctx, t.Ref)
		if err != nil {
			return removed, kept, err
		}
		e := api.TrashEntry{Agent: t.Agent, Ref: t.Ref, Branch: t.Branch, Time: t.Time, Bytes: size}
		if err := sort(e, func() error { return w.dropRef(ctx, t) }); err != nil {
			return removed, kept, err
		}
	}
	dirs, err := w.trashDirs()
	if err != nil {
		return removed, kept, err
	}
	for _, t := range dirs {
		size, err := dirSize(ctx, t.Path)
		if err != nil {
			return removed, kept, api.Errorf(api.CodeInternal, "measure %s: %w", t.Path, err)
		}
		e := api.TrashEntry{Agent: t.Agent, Path: t.Path, Time: t.Time, Bytes: size}
		if err := sort(e, func() error { return w.dropDir(ctx, t) }); err != nil {
			return removed, kept, err
		}
	}
	return removed, kept, nil
}
