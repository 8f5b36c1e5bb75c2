package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Revert reverts a merge by a new commit on the target (git revert -m 1), without a checkout.
// Result.Later counts the merges made since. A change that later ones build on is MERGE_CONFLICT;
// a merge that is reverted already is NOTHING_TO_MERGE.
func (m *Merger) Revert(ctx context.Context, commit string) (Result, error) {
	return m.revert(ctx, commit, false)
}

// DryRevert returns what Revert would do, with the same errors, and moves nothing.
func (m *Merger) DryRevert(ctx context.Context, commit string) (Result, error) {
	return m.revert(ctx, commit, true)
}

func (m *Merger) revert(ctx context.Context, commit string, dry bool) (Result, error) {
	if !git.IsOID(commit) {
		return Result{}, api.Errorf(api.CodeBadRequest, "%q is not a full commit id", api.Shorten(commit, 80))
	}
	target, err := m.target(ctx, "")
	if err != nil {
		return Result{}, err
	}
	done, err := m.one(ctx, target)
	if err != nil {
		return Result{}, err
	}
	defer done()
	_, who, err := m.sync(ctx, target)
	if err != nil {
		return Result{}, err
	}
	bare := m.Workspace.Bare()
	if _, err := bare.Commit(ctx, commit); err != nil {
		return Result{}, api.Errorf(api.CodeNotFound, "there is no commit %s: %w", commit, err)
	}
	parents, err := bare.Parents(ctx, commit)
	if err != nil {
		return Result{}, api.Errorf(api.CodeRepoCorrupt, "read commit %s: %w", commit, err)
	}
	if len(parents) != 2 {
		return Result{}, api.Errorf(api.CodeBadRequest, "%s is not a merge of two branches", commit)
	}
	var res Result
	err = m.retry(ctx, target, func(onto string) (string, error) {
		var err error
		res, err = m.unmerge(ctx, who, target, onto, commit, parents[0])
		if dry {
			res.Commit = ""
		}
		return res.Commit, err
	})
	if err != nil {
		return res, err
	}
	if dry {
		return res, nil
	}
	m.Log.Info("merge reverted", "op", "revert", "path", git.Branch(target))
	return res, nil
}

// unmerge makes the commit that reverts a merge, on top of onto.
func (m *Merger) unmerge(ctx context.Context, who signature, target, onto, commit, before string) (Result, error) {
	bare := m.Workspace.Bare()
	res := Result{Target: target, Onto: onto, Merged: commit}
	fail := func(err error) (Result, error) {
		return res, api.Errorf(api.CodeInternal, "revert %s: %w", commit, err)
	}
	line, err := bare.Run(ctx, "rev-list", "--first-parent", onto, "^"+before)
	if err != nil {
		return fail(err)
	}
	if !slices.Contains(strings.Fields(string(line)), commit) {
		return res, api.Errorf(api.CodeBadRequest, "%s was not merged into %s", commit, target)
	}
	if res.Later, err = bare.Count(ctx, "--first-parent", "--min-parents=2", onto, "^"+commit); err != nil {
		return fail(err)
	}
	// A revert is a merge whose base is the merge commit, ours the target and
	// theirs the state before. This git's merge-tree finds the base by itself, so
	// it gets three commits of which one is the parent of both others.
	base, err := bare.CommitTree(ctx, commit+"^{tree}", nil, "base\n", git.Idents{})
	if err != nil {
		return fail(err)
	}
	ours, err := bare.CommitTree(ctx, onto+"^{tree}", []string{base}, "ours\n", git.Idents{})
	if err != nil {
		return fail(err)
	}
	theirs, err := bare.CommitTree(ctx, before+"^{tree}", []string{base}, "theirs\n", git.Idents{})
	if err != nil {
		return fail(err)
	}
	got, err := mergeTree(ctx, bare, ours, theirs)
	if err != nil {
		return res, err
	}
	if len(got.conflicts) > 0 {
		return res, api.Errorf(api.CodeMergeConflict, "what %s brought was changed since in %s: %s", commit[:12], api.Count(len(got.conflicts), "file"), name(got.conflicts, 3)).
			WithHint("%d merges came after it; revert those first, or undo the change by hand", res.Later).
			With("paths", got.conflicts[:min(len(got.conflicts), maxPaths)]).With("later", res.Later)
	}
	if res.Paths, err = bare.Changed(ctx, onto, got.tree); err != nil {
		return fail(err)
	}
	if len(res.Paths) == 0 {
		// Perhaps a revert of ours, by a daemon that died before it recorded it.
		by, err := bare.Run(ctx, "rev-list", "--first-parent", "--fixed-strings", "--grep=This reverts commit "+commit, "--max-count=1", onto, "^"+commit)
		if err != nil {
			return fail(err)
		}
		res.Commit = strings.TrimSpace(string(by))
		return res, api.Errorf(api.CodeNothingToMerge, "%s is reverted already: nothing of it is left in %s", commit[:12], target)
	}
	res.Paths = res.Paths[:min(len(res.Paths), maxPaths)]
	res.Tree = got.tree
	subject, err := bare.Line(ctx, "show", "-s", "--format=%s", "--end-of-options", commit)
	if err != nil {
		return fail(err)
	}
	message := fmt.Sprintf("Revert %q\n\nThis reverts commit %s, reversing\nchanges made to %s.\n", subject, commit, before) + paragraph(who.trailers(""))
	if res.Commit, err = bare.CommitTree(ctx, got.tree, []string{onto}, message, who.Idents); err != nil {
		return fail(err)
	}
	return res, nil
}
