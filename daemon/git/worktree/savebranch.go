package worktree

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/daemon/git"
)

// saveBranch keeps the commits of an agent whose worktree is gone.
func (w *Workspace) saveBranch(ctx context.Context, agent string, opt SaveOptions) (TrashRef, error) {
	fail := func(err error) (TrashRef, error) {
		return TrashRef{}, api.Errorf(api.CodeWorktreeFailed, "save the branch of %s in the trash: %w", agent, err)
	}
	bare, store := w.of(agent), w.store(agent)
	var out TrashRef
	tips, err := w.keptTips(ctx, agent, "", opt, &out)
	if err != nil {
		return fail(err)
	}
	if len(tips) == 0 {
		return TrashRef{Agent: agent}, nil
	}
	ahead, err := bare.Count(ctx, append(append([]string{}, tips...), "--not", "HEAD")...)
	if err != nil {
		return fail(err)
	}
	out.Agent, out.Branch, out.Head = agent, opt.Branch, tips[0]
	if ahead == 0 {
		return out, nil
	}
	out.Time = w.cfg.Now().UTC()
	out.Ref = trashPrefix + agent + "/" + out.Time.Format(stampFormat)
	if err := errors.Join(w.guardInternal(), w.keep(ctx, agent, tips)); err != nil {
		return fail(err)
	}
	out.Commit, err = store.CommitTree(ctx, tips[0]+"^{tree}", tips, describe(out, ""), git.Idents{})
	if err != nil {
		return fail(err)
	}
	if err := store.Update(ctx, out.Ref, out.Commit, "", "polis: saved in the trash"); err != nil {
		return fail(err)
	}
	return out, nil
}
