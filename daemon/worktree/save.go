package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

const (
	trashPrefix = "refs/polis/trash/"
	stampFormat = "20060102T150405.000000Z"
)

// TrashRef is work put aside.
type TrashRef struct {
	// Ref is refs/polis/trash/<agent>/<UTC time>; empty if there was nothing to save.
	Ref    string
	Commit string
	Agent  string
	Branch string // the branch the work was on
	Head   string // the commit it was on; empty if there was none
	Time   time.Time
	// Paths are the files that differ from Head, at most 100.
	Paths []string
	// Nested are directories with a git repository of their own, which a ref
	// cannot hold. Discard keeps such a worktree's directory in the trash.
	Nested []string
	// Torn are files that changed while they were read.
	Torn []string
}

// SaveOptions is what Save may be told.
type SaveOptions struct {
	View
	// Branch is the agent's own branch; its commits are kept too.
	Branch string
	// Keep are further commits to keep (an agent's private stash).
	Keep []string
	// Ignored saves the ignored files, too.
	Ignored bool
}

// Save puts everything in an agent's worktree under a trash ref: commits, index,
// changed and untracked files, byte for byte. It touches neither worktree, index
// nor branch and runs nothing of the agent's. Ignored files are saved if told.
// Nothing to save (all of it is in the target branch) is an empty TrashRef.
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
	tmp, err := (&upper{spec: Spec{UID: w.cfg.UID, GID: w.cfg.GID}, w: w}).scratch("save-")
	if err != nil {
		return TrashRef{}, err
	}
	s := &saver{w: w, agent: agent, opt: opt, index: filepath.Join(tmp, "index")}
	ref, err := s.run(ctx)
	if unreadable(err) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err = errors.Join(err, fdtree.Cleanup(tmp)); err != nil {
		return TrashRef{}, api.Errorf(api.CodeWorktreeFailed, "put the work of %s aside: %w", agent, err).
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
	out   TrashRef
}

func (s *saver) git(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	c := s.w.cmd(s.agent, s.opt.View, s.index, args...)
	c.Stdin = stdin
	return s.w.Bare().Do(ctx, c)
}

func (s *saver) run(ctx context.Context) (TrashRef, error) {
	bare := s.w.Bare()
	head, err := s.w.head(ctx, s.agent)
	if err != nil {
		return TrashRef{}, err
	}
	if whole, err := s.w.whole(ctx, s.agent, []string{head}); err != nil {
		return TrashRef{}, err
	} else if len(whole) == 0 {
		head = "" // the files are kept all the same
	}
	s.out = TrashRef{Agent: s.agent, Head: head, Branch: s.w.look(s.agent).Branch, Time: s.w.cfg.Now().UTC()}
	if s.out.Branch == "" {
		s.out.Branch = s.opt.Branch
	}
	conflicted, err := s.copyIndex(ctx, head)
	if err != nil {
		return TrashRef{}, err
	}
	tree, err := s.git(ctx, nil, "write-tree")
	if err != nil {
		return TrashRef{}, fmt.Errorf("save the index: %w", err)
	}
	changed, err := s.changed(ctx, conflicted)
	if err != nil {
		return TrashRef{}, err
	}
	tips, err := s.w.tips(ctx, head, s.opt.Branch)
	if err != nil {
		return TrashRef{}, err
	}
	if tips, err = s.w.whole(ctx, s.agent, append(tips, s.opt.Keep...)); err != nil {
		return TrashRef{}, err
	}

	indexTree := strings.TrimSpace(string(tree))
	if len(changed) == 0 && len(s.out.Nested) == 0 {
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
	index, err := bare.CommitTree(ctx, indexTree, parents, "polis: index of "+s.agent+"\n", git.Person{})
	if err != nil {
		return TrashRef{}, fmt.Errorf("save the index: %w", err)
	}
	parents = append(parents, index)
	for _, tip := range tips {
		if tip != head {
			parents = append(parents, tip)
		}
	}
	s.out.Ref = trashPrefix + s.agent + "/" + s.out.Time.Format(stampFormat)
	if err := s.commit(ctx, indexTree, index, parents, changed); err != nil {
		return TrashRef{}, err
	}
	if s.out.Commit, err = bare.Ref(ctx, s.out.Ref); err != nil {
		return TrashRef{}, err
	}
	base := indexTree
	if head != "" {
		base = head
	}
	if s.out.Paths, err = bare.Changed(ctx, base, s.out.Commit); err != nil {
		return TrashRef{}, err
	}
	s.out.Paths = s.out.Paths[:min(len(s.out.Paths), maxNames)]
	s.w.cfg.Log.Info("work put aside", "agent", s.agent, "op", "save", "path", s.out.Ref)
	return s.out, nil
}

// saveBranch keeps the commits of an agent whose worktree is gone.
func (w *Workspace) saveBranch(ctx context.Context, agent string, opt SaveOptions) (TrashRef, error) {
	fail := func(err error) (TrashRef, error) {
		return TrashRef{}, api.Errorf(api.CodeWorktreeFailed, "put the branch of %s aside: %w", agent, err)
	}
	bare := w.Bare()
	tips, err := w.tips(ctx, "", opt.Branch)
	if err != nil {
		return fail(err)
	}
	if tips, err = w.whole(ctx, agent, append(tips, opt.Keep...)); err != nil {
		return fail(err)
	}
	if len(tips) == 0 {
		return TrashRef{Agent: agent}, nil
	}
	ahead, err := bare.Count(ctx, append(append([]string{}, tips...), "--not", "HEAD")...)
	if err != nil {
		return fail(err)
	}
	out := TrashRef{Agent: agent, Branch: opt.Branch, Head: tips[0]}
	if ahead == 0 {
		return out, nil
	}
	out.Time = w.cfg.Now().UTC()
	out.Ref = trashPrefix + agent + "/" + out.Time.Format(stampFormat)
	out.Commit, err = bare.CommitTree(ctx, tips[0]+"^{tree}", tips, describe(out, ""), git.Person{})
	if err != nil {
		return fail(err)
	}
	if err := bare.Update(ctx, out.Ref, out.Commit, "", "polis: put aside"); err != nil {
		return fail(err)
	}
	return out, nil
}
