package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

const (
	trashPrefix = "refs/polis/trash/"
	stampFormat = "20060102T150405.000000Z"
)

// SaveOptions are the options of Save.
type SaveOptions struct {
	View
	// Branch is the agent's own branch; its commits are kept too.
	Branch string
	// Keep are further commits to keep (an agent's private stash).
	Keep []string
	// Refs are the refs that only the agent has, and Unread is the reason why they are not known.
	Refs   map[string]string
	Unread error
	// Worktrees are the worktrees that the agent made itself.
	Worktrees []string
	// Ignored saves the ignored files, too; of those that the setup command made, what the agent has
	// changed. Made saves all of these, for a worktree that does not share them.
	Ignored, Made bool
	// Nested saves repositories inside the worktree also if they have no work of the agent, for a fork.
	Nested bool
}

// Save stores everything in an agent's worktree under a trash ref: commits, index, changed and
// untracked files, byte for byte. It touches neither worktree, index nor branch and runs no code
// of the agent. Ignored files are saved if opt.Ignored is set. Nothing to save (all of it is in
// the target branch) returns an empty TrashRef.
func (w *Workspace) Save(ctx context.Context, agent string, opt SaveOptions) (TrashRef, error) {
	if err := api.CheckName(agent); err != nil {
		return TrashRef{}, err
	}
	done, err := w.exclusive(ctx, agent)
	if err != nil {
		return TrashRef{}, err
	}
	defer done()
	return w.save(ctx, agent, opt)
}

func (w *Workspace) save(ctx context.Context, agent string, opt SaveOptions) (TrashRef, error) {
	if err := w.usable(agent); err != nil {
		if api.CodeOf(err) != api.CodeWorktreeMissing || opt.Branch == "" {
			return TrashRef{}, err
		}
		return w.saveBranch(ctx, agent, opt)
	}
	if err := w.guardInternal(); err != nil {
		return TrashRef{}, err
	}
	tmp, err := (&upper{spec: Spec{UID: w.cfg.UID, GID: w.cfg.GID}, w: w}).scratch("save-")
	if err != nil {
		return TrashRef{}, err
	}
	s := &saver{w: w, agent: agent, opt: opt, index: filepath.Join(tmp, "index")}
	sctx, cancel := context.WithTimeout(ctx, w.cfg.SaveTime)
	defer cancel()
	ref, err := s.run(sctx)
	if err != nil && ctx.Err() == nil && !noRoom(err) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err = errors.Join(err, fdtree.Cleanup(tmp)); err != nil {
		return TrashRef{}, api.Errorf(api.CodeWorktreeFailed, "save the work of %s in the trash: %w", agent, err).
			WithHint("nothing was removed; the files are in %s", w.tree(agent))
	}
	return ref, nil
}

// saver is one Save.
type saver struct {
	w     *Workspace
	agent string
	opt   SaveOptions
	index string // a copy
	set   *changeSet
	out   TrashRef
	// modules: the worktree has repositories of submodules.
	modules bool
	// data: its part of the git directory has data of other tools.
	data bool
}

func (s *saver) git(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	return s.gitOf(ctx, s.index, stdin, args...)
}

func (s *saver) gitOf(ctx context.Context, index string, stdin io.Reader, args ...string) ([]byte, error) {
	c := s.w.cmd(s.agent, s.opt.View, index, args...)
	c.Stdin = stdin
	// No agent sees what it writes.
	c.Objects, c.Alternates = s.w.Internal().ObjectDir(), append(alternatesOf(c), s.w.Bare().ObjectDir())
	return s.w.Bare().Do(ctx, c)
}

// alternatesOf are all directories a command reads objects from, the own first.
func alternatesOf(c git.Cmd) []string {
	if c.Objects == "" {
		return nil
	}
	return append([]string{c.Objects}, c.Alternates...)
}

// store is the internal repository with what only the agent has.
func (w *Workspace) store(agent string) git.Repo {
	r, with := w.Internal(), w.of(agent)
	if with.Objects != "" {
		r.Alternates = []string{with.Objects}
	}
	return r
}

// keep copies commits, with all they reach, to the internal repository as far as only the agent
// has them: the agent's own objects may be deleted.
func (w *Workspace) keep(ctx context.Context, agent string, commits []string) error {
	with := w.of(agent)
	if with.Objects == "" || len(commits) == 0 {
		return nil
	}
	return w.Bare().Borrow(ctx, w.Internal(), with.Objects, commits...)
}

func (s *saver) run(ctx context.Context) (TrashRef, error) {
	bare, store := s.w.of(s.agent), s.w.store(s.agent)
	root, err := s.w.lower(s.agent, s.opt.View)
	if err != nil {
		return TrashRef{}, err
	}
	defer root.Close()
	if s.set, err = s.w.changes(ctx, s.agent, s.opt.View); err != nil {
		return TrashRef{}, err
	}
	s.withoutConflicts()
	if err := s.blocking(ctx, root); err != nil {
		return TrashRef{}, err
	}
	head, err := s.w.head(ctx, s.agent)
	if err != nil {
		return TrashRef{}, err
	}
	if whole, err := s.w.whole(ctx, s.agent, []string{head}); err != nil {
		return TrashRef{}, err
	} else if len(whole) == 0 {
		head = "" // the files are saved all the same
	}
	s.out = TrashRef{Agent: s.agent, Head: head, Branch: s.w.read(s.agent).Branch, Time: s.w.cfg.Now().UTC()}
	if s.out.Branch == "" {
		s.out.Branch = s.opt.Branch
	}
	conflicted, err := s.copyIndex(ctx, head)
	if err != nil {
		return TrashRef{}, err
	}
	changed, err := s.changed(ctx, conflicted)
	if err != nil {
		return TrashRef{}, err
	}
	// After the comparison: git-write-tree(1) stores the index again, and the new one hides changes that
	// are as old as the first one.
	indexTree, err := s.writeTree(ctx)
	if err != nil {
		return TrashRef{}, fmt.Errorf("save the index: %w", err)
	}
	tips, err := s.w.keptTips(ctx, s.agent, head, s.opt, &s.out)
	if err != nil {
		return TrashRef{}, err
	}

	inside, err := s.nested(ctx)
	if err != nil {
		return TrashRef{}, err
	}
	if len(changed) == 0 && !inside && len(s.out.Objects)+len(s.out.Worktrees) == 0 && s.out.Unread == nil {
		staged := true
		if head != "" {
			base, err := bare.Line(ctx, "rev-parse", "--verify", "--end-of-options", head+"^{tree}")
			if err != nil {
				return TrashRef{}, err
			}
			staged = base != indexTree
		}
		if !staged {
			ahead, err := bare.Count(ctx, append(append([]string{}, tips...), "--not", "HEAD")...)
			if err != nil || ahead == 0 {
				return TrashRef{Agent: s.agent, Branch: s.out.Branch, Head: head}, err
			}
		}
	}
	var parents []string
	if head != "" {
		parents = []string{head}
	}
	index, err := store.CommitTree(ctx, indexTree, parents, "polis: index of "+s.agent+"\n", git.Idents{})
	if err != nil {
		return TrashRef{}, fmt.Errorf("save the index: %w", err)
	}
	parents = append(parents, index)
	for _, tip := range tips {
		if tip != head {
			parents = append(parents, tip)
		}
	}
	if err := s.w.keep(ctx, s.agent, parents); err != nil {
		return TrashRef{}, fmt.Errorf("keep the agent's objects: %w", err)
	}
	failpoint.Hit("save:kept")
	s.out.Ref = trashPrefix + s.agent + "/" + s.out.Time.Format(stampFormat)
	if err := s.keepNested(ctx, root); err != nil {
		return TrashRef{}, err
	}
	if err := s.commit(ctx, root, indexTree, index, parents, changed); err != nil {
		return TrashRef{}, err
	}
	if s.out.Commit, err = store.Ref(ctx, s.out.Ref); err != nil {
		return TrashRef{}, err
	}
	base := indexTree
	if head != "" {
		base = head
	}
	if s.out.Paths, err = store.Changed(ctx, base, s.out.Commit); err != nil {
		return TrashRef{}, err
	}
	s.out.Paths = s.out.Paths[:min(len(s.out.Paths), maxNames)]
	s.w.cfg.Log.Info("work saved in the trash", "agent", s.agent, "op", "save", "path", s.out.Ref)
	return s.out, nil
}
