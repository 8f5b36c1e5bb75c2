package merge

import (
	"cmp"
	"context"

	"polis/daemon/git"
	"polis/daemon/git/worktree"
)

// mergedBy is the trailer of a commit that polis makes with the identity of the project's owner.
const mergedBy = "Merged-by: polis"

// signature is who a merge or a revert is by.
type signature struct {
	git.Idents
	owners bool // a part of it is the owner's
}

// trailers returns the trailers of a commit. more is one more; "" for none.
func (s signature) trailers(more string) (lines []string) {
	if s.owners {
		lines = append(lines, mergedBy)
	}
	if more != "" {
		lines = append(lines, more)
	}
	return lines
}

// sync brings the user's own commits on the target in, and returns the target's commit then and who a commit on top of it
// is by. The caller holds the lease of the target.
func (m *Merger) sync(ctx context.Context, target string) (commit string, who signature, err error) {
	var project *worktree.Project
	got, err := m.Workspace.SyncLockedWith(ctx, target, func(ctx context.Context) (*worktree.Project, error) {
		var err error
		project, err = m.Workspace.Project(ctx)
		return project, err
	})
	if err != nil {
		return got.Commit, who, err
	}
	return got.Commit, m.signature(ctx, project), nil
}

// signature is the configured identity, else that of the project's owner, else polis.
func (m *Merger) signature(ctx context.Context, project *worktree.Project) signature {
	var set git.Person
	if m.Identity != nil {
		set = m.Identity()
	}
	s := signature{Idents: git.Idents{Author: set, Committer: set}}
	if set.Name != "" && set.Email != "" || project == nil {
		return s
	}
	of := m.identityOf(ctx, project)
	for _, p := range []struct{ to, of *git.Person }{{&s.Author, &of.Author}, {&s.Committer, &of.Committer}} {
		if p.of.Name == "" || p.of.Email == "" { // git would not let the owner commit
			continue
		}
		s.owners = true
		*p.to = git.Person{Name: cmp.Or(set.Name, p.of.Name), Email: cmp.Or(set.Email, p.of.Email)}
	}
	return s
}

// identityOf returns the identity of a project's owner. What cannot be read is logged, and is empty.
func (m *Merger) identityOf(ctx context.Context, p *worktree.Project) git.Idents {
	o, err := p.OwnersGit(ctx, m.homeOf(p))
	var ids git.Idents
	if err == nil {
		ids, err = o.Identity(ctx)
	}
	if err != nil {
		m.Log.Warn("identity of the project's owner not read; the merge is by polis", "op", "merge", "path", p.Path, "err", err)
		return git.Idents{}
	}
	return ids
}
