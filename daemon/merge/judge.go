package merge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/gate"
	"polis/fusefs/gitdir/fsck"
)

// maxNamed bounds the paths of a refusal's details.
const maxNamed = 100

// judge lists what a merge changes in the target and compares it with the rules of the agent:
// UNDECLARED_WRITE if a path is outside of them, PROTECTED_PATH if a person must accept one and
// has not. A dry run marks the latter and continues.
func (m *Merger) judge(ctx context.Context, req Request, res *Result) error {
	changes, err := gate.Changes(ctx, m.Workspace.Bare(), res.Onto, res.Tree)
	if err != nil {
		return api.Errorf(api.CodeInternal, "list what the merge changes: %w", err)
	}
	for _, c := range changes {
		if c.New == gate.ModeNone {
			continue
		}
		if err := fsck.Path(c.Path); err != nil {
			return api.Errorf(api.CodeBadTree, "branch %s holds what no checkout can have: %w", req.Branch, err).
				WithHint("rename it in the agent, commit, and merge again")
		}
	}
	for _, c := range changes[:min(len(changes), maxPaths)] {
		res.Paths = append(res.Paths, c.Path)
	}
	v := req.Rules.Judge(changes)
	res.Protected = v.Protected[:min(len(v.Protected), maxPaths)]
	if err := Held(req.Agent, req.Branch, v, req.AcceptProtected || req.DryRun); err != nil {
		return err
	}
	return m.pointers(ctx, req, res, changes)
}

// pointers refuses a submodule whose commit the project cannot get: SUBMODULE_LOST.
func (m *Merger) pointers(ctx context.Context, req Request, res *Result, changes []gate.Change) error {
	var list []worktree.Pointer
	for _, c := range changes {
		if c.New == gate.ModeGitlink {
			list = append(list, worktree.Pointer{Path: c.Path, Commit: c.ID})
		}
	}
	lost, err := m.Workspace.LostPointers(ctx, req.Agent, res.Tree, list)
	if err != nil {
		return api.Errorf(api.CodeInternal, "find the commits of submodules: %w", err)
	}
	if len(lost) == 0 {
		return nil
	}
	named := make([]string, 0, min(len(lost), maxNamed))
	for _, l := range lost[:min(len(lost), maxNamed)] {
		named = append(named, l.Path)
	}
	first := lost[0]
	e := api.Errorf(api.CodeSubmoduleLost, "branch %s has %s at a commit that the project cannot get: %q is at %.12s", req.Branch, api.Count(len(lost), "submodule"), api.Shorten(first.Path, 120), first.Commit).
		With("paths", named).With("total", len(lost)).With("commit", first.Commit)
	if first.Cloned {
		return e.WithHint("push it and fetch it in the project, or: polisctl agents exec %[1]s -- git -C %[2]s bundle create - HEAD > sub.bundle, and in the project: git -C %[2]s fetch sub.bundle HEAD:agent/%[1]s; then merge again", req.Agent, api.ShellWord(first.Path))
	}
	return e.WithHint("push it to the submodule's remote, or: polisctl agents exec %[1]s -- git -C %[2]s bundle create - --all > sub.bundle, and in the project: git clone --bare sub.bundle .git/modules/%[3]s; then merge again", req.Agent, api.ShellWord(first.Path), api.ShellWord(first.Module))
}

// Held is the error for a verdict; nil if every path may be merged. accepted: a person accepts
// protected paths.
func Held(agent, branch string, v gate.Verdict, accepted bool) error {
	switch {
	case len(v.Undeclared) > 0:
		return api.Errorf(api.CodeUndeclaredWrite, "branch %s changes %s that agent %s may not change: %s", branch, api.Count(len(v.Undeclared), "path"), agent, list(v.Undeclared, 3)).
			With("paths", paths(v.Undeclared)).With("reasons", reasons(v.Undeclared)).With("total", len(v.Undeclared)).
			WithHint("in the agent: git checkout TARGET -- PATH, commit, and merge again; or allow it: polisctl agents set %s --write GLOB (polisctl agents policy %s shows its rules)", agent, agent)
	case len(v.Protected) > 0 && !accepted:
		return api.Errorf(api.CodeProtectedPath, "branch %s changes %d protected paths: %s", branch, len(v.Protected), list(v.Protected, 3)).
			With("paths", paths(v.Protected)).With("reasons", reasons(v.Protected)).With("total", len(v.Protected)).
			WithHint("look at them (polisctl agents diff %s); polisctl merge %s --accept-protected merges them; merge.protected in polisd.toml is the list", agent, agent)
	}
	return nil
}

// CheckTrees rejects a branch that contains, in any commit between base and tip, a tree that git
// does not check out: BAD_TREE.
func (m *Merger) CheckTrees(ctx context.Context, branch, tip, base string) error {
	err := m.Workspace.Bare().CheckTrees(ctx, tip, base)
	if errors.Is(err, git.ErrBadTree) {
		return api.Errorf(api.CodeBadTree, "branch %s holds what no checkout can have: %w", branch, err).
			WithHint("git refuses to check it out, and forges to take it: it must go from the branch's history before that can be merged")
	}
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read the commits of branch %s: %w", branch, err)
	}
	return nil
}

// list writes a few findings, quoted: names can have any bytes.
func list(fs []gate.Finding, n int) string {
	var b strings.Builder
	for i, f := range fs {
		if i == n {
			fmt.Fprintf(&b, ", and %d more", len(fs)-n)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q (%s)", api.Shorten(f.Path, 120), api.Shorten(f.Why, 160))
	}
	return b.String()
}

func paths(fs []gate.Finding) []string {
	out := make([]string, 0, min(len(fs), maxNamed))
	for _, f := range fs[:min(len(fs), maxNamed)] {
		out = append(out, f.Path)
	}
	return out
}

func reasons(fs []gate.Finding) []string {
	out := make([]string, 0, min(len(fs), maxNamed))
	for _, f := range fs[:min(len(fs), maxNamed)] {
		out = append(out, api.Shorten(f.Why, 300))
	}
	return out
}
