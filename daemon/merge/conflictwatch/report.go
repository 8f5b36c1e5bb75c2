package conflictwatch

import (
	"slices"
	"strings"

	"polis/daemon/api"
)

// maxListed bounds the paths of a report.
const maxListed = 1000

// changes maps every changed path to its authors.
func (p *snapshot) changes() map[string][]api.ConflictChange {
	by := map[string][]api.ConflictChange{}
	note := func(agent, path string) *api.ConflictChange {
		who := by[path]
		if len(who) == 0 || who[len(who)-1].Agent != agent {
			who = append(who, api.ConflictChange{Agent: agent})
			by[path] = who
		}
		return &who[len(who)-1]
	}
	for _, b := range p.branches {
		for _, path := range b.changed {
			note(b.Name, path).Committed = true
		}
		for _, path := range b.uncommitted {
			note(b.Name, path).Uncommitted = true
		}
	}
	return by
}

// report joins a snapshot with the present leases.
func (p *snapshot) report(leases []api.Lock) api.Conflicts {
	c := api.Conflicts{Target: p.target, Tried: p.tried, Skipped: p.skipped,
		Errors: slices.Clone(p.errs), Branches: []api.ConflictBranch{}, Merges: append([]api.ConflictMerge{}, p.merges...)}
	for _, b := range p.branches {
		c.Branches = append(c.Branches, api.ConflictBranch{Agent: b.Name, Branch: b.Branch, Commit: b.tip, Base: b.base,
			Committed: len(b.changed), Uncommitted: len(b.uncommitted), Truncated: b.truncated})
	}
	by := p.changes()
	rows := map[string]*api.ConflictPath{}
	row := func(path string) *api.ConflictPath {
		if rows[path] == nil {
			rows[path] = &api.ConflictPath{Path: path, ChangedBy: append([]api.ConflictChange{}, by[path]...), LeasedBy: []string{}, AwaitedBy: []string{}}
		}
		return rows[path]
	}
	for path, who := range by {
		if len(who) > 1 {
			row(path)
		}
	}
	var trees []api.Lock
	for _, l := range leases {
		if l.Tree {
			trees = append(trees, l)
		}
		if len(l.Waiters) > 0 || changedByOther(by[l.Path], l.Holder) || rows[l.Path] != nil {
			lease(row(l.Path), l)
		}
	}
	// A lock of a directory covers every path below.
	for _, l := range trees {
		for path, who := range by {
			if !strings.HasPrefix(path, l.Path+"/") {
				continue
			}
			if rows[path] != nil || changedByOther(who, l.Holder) {
				lease(row(path), l)
			}
		}
	}
	for _, x := range rows {
		c.Paths = append(c.Paths, *x)
	}
	slices.SortFunc(c.Paths, func(a, b api.ConflictPath) int { return strings.Compare(a.Path, b.Path) })
	c.PathsTotal = len(c.Paths)
	c.Paths = append([]api.ConflictPath{}, c.Paths[:min(len(c.Paths), maxListed)]...)
	return c
}

// lease adds a lease to a row.
func lease(x *api.ConflictPath, l api.Lock) {
	x.LeasedBy, x.AwaitedBy = join(x.LeasedBy, l.Holder), join(x.AwaitedBy, l.Waiters...)
}

func join(to []string, names ...string) []string {
	for _, n := range names {
		if !slices.Contains(to, n) {
			to = append(to, n)
		}
	}
	return to
}

func changedByOther(who []api.ConflictChange, holder string) bool {
	return slices.ContainsFunc(who, func(c api.ConflictChange) bool { return c.Agent != holder })
}
