package merge

import (
	"cmp"
	"context"
	"time"

	"polis/daemon/git"
	"polis/daemon/worktree"
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

// identityLife is how long the owner's identity is used again: to start git is most of a merge, and merges come in bursts.
const identityLife = 10 * time.Second

// owner is the identity of a project's owner as it was read.
type owner struct {
	git.Idents
	of   worktree.Owner
	path string
	read time.Time
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

// identityOf returns the identity of a project's owner. What cannot be read is logged, and is empty. The caller has the turn.
func (m *Merger) identityOf(ctx context.Context, p *worktree.Project) git.Idents {
	if k := m.owner; k.of == p.Owner && k.path == p.Path && time.Since(k.read) < identityLife {
		return k.Idents
	}
	ids, err := p.Identity(ctx, m.homeOf(p))
	if err != nil {
		m.Log.Warn("identity of the project's owner not read; the merge is by polis", "op", "merge", "path", p.Path, "err", err)
		return git.Idents{}
	}
	m.owner = owner{Idents: ids, of: p.Owner, path: p.Path, read: time.Now()}
	return ids
}
