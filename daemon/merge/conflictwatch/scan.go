package conflictwatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/branches"
)

const (
	maxCompared = 20_000 // paths of one branch, and of one worktree, that are compared
	dirtyEvery  = 2 * time.Second
	dirtyRest   = 20 // multiplied by the duration of a worktree's scan
)

// snapshot is the result of one scan. It is not changed afterwards.
type snapshot struct {
	time     time.Time
	target   string
	branches []branch
	merges   []api.ConflictMerge
	shared   int // paths changed by more than one agent
	tried    int
	skipped  int
	errs     []string
	partial  bool // a part failed and may succeed the next time
}

// branch is an agent's branch in a snapshot.
type branch struct {
	Agent
	span
	uncommitted []string // sorted
	truncated   bool
}

// own reports whether the branch has commits that the target lacks.
func (b branch) own() bool { return b.tip != b.base }

// span is a branch from where it left the target to its tip.
type span struct {
	onto, tip string
	base      string   // empty: it has no commit in common with the target
	changed   []string // paths, sorted, at most maxCompared
	more      bool
}

// dirty is what a worktree contained when it was read.
type dirty struct {
	tip   string // where the branch was
	at    time.Time
	took  time.Duration
	paths []string
	more  bool
}

// scan makes a new snapshot.
func (r *Watcher) scan(ctx context.Context, tips branches.Tips, trees bool) (*snapshot, error) {
	p := &snapshot{time: r.Now(), target: tips.Target}
	bare := r.Git.Bare()
	spans, dirt := map[string]span{}, map[string]dirty{}
	for _, a := range tips.Agents {
		tip := tips.Of[a.Name]
		if tip == "" {
			continue // removed, or without a first commit
		}
		b := branch{Agent: a}
		var err error
		if b.span, err = follow(r.charged(ctx, a.Name), bare, r.spans[a.Name], tips.Onto, tip); err != nil {
			p.fail(ctx, "branch %s: %w", a.Branch, err)
			continue
		}
		spans[a.Name] = b.span
		p.branches = append(p.branches, b)
	}
	r.spans = spans
	// Conflicts are published before worktrees are read, which takes longer.
	if err := r.try(ctx, p); err != nil {
		return nil, err
	}
	for i := range p.branches {
		b := &p.branches[i]
		d, err := r.tree(ctx, r.dirty[b.Name], b.Name, b.tip, trees)
		if err != nil {
			p.fail(ctx, "%w", err)
		}
		dirt[b.Name] = d
		b.uncommitted, b.truncated = d.paths, d.more || b.more
	}
	r.dirty = dirt
	for _, who := range p.changes() {
		if len(who) > 1 {
			p.shared++
		}
	}
	return p, nil
}

// fail logs what could not be read.
func (p *snapshot) fail(ctx context.Context, format string, args ...any) {
	p.partial = true
	if ctx.Err() == nil && len(p.errs) < 20 {
		p.errs = append(p.errs, api.Shorten(fmt.Errorf(format, args...).Error(), 500))
	}
}

// follow updates a span to the present commits of its two ends.
func follow(ctx context.Context, bare git.Repo, s span, onto, tip string) (span, error) {
	if s.onto == onto && s.tip == tip {
		return s, nil
	}
	base, err := bare.Line(ctx, "merge-base", onto, tip)
	if code, ok := git.ExitCode(err); ok && code == 1 {
		return span{onto: onto, tip: tip}, nil
	}
	if err != nil {
		return span{}, err
	}
	if s.tip == tip && s.base == base {
		s.onto = onto
		return s, nil
	}
	n := span{onto: onto, tip: tip, base: base}
	if base == tip {
		return n, nil
	}
	n.changed, err = bare.Changed(ctx, base, tip)
	n.changed, n.more = bound(n.changed)
	return n, err
}

// tree reads a worktree if a caller wants to know, and not all the time: that reads the state of
// every file in it.
func (r *Watcher) tree(ctx context.Context, d dirty, agent, tip string, want bool) (dirty, error) {
	if d.tip != tip {
		d = dirty{tip: tip} // what it contained may be in the new commit
	}
	if !want || !d.at.IsZero() && time.Since(d.at) < max(dirtyEvery, dirtyRest*d.took) {
		return d, nil
	}
	began := time.Now()
	paths, err := r.Git.Uncommitted(r.charged(ctx, agent), agent)
	if err != nil && api.CodeOf(err) != api.CodeWorktreeMissing {
		d.at, d.took = time.Now(), time.Since(began) // it pauses as long as any other
		return d, err
	}
	n := dirty{tip: tip, at: time.Now(), took: time.Since(began)}
	n.paths, n.more = bound(paths)
	return n, nil
}

// bound sorts paths and cuts the list to the compared number.
func bound(paths []string) ([]string, bool) {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(paths) > maxCompared {
		return slices.Clone(paths[:maxCompared]), true
	}
	return paths, false
}
