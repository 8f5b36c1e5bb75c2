package table

import (
	"cmp"
	"slices"
)

// List returns the selected leases, sorted by workspace, path and holder, each with its waiters.
func (t *Table) List(f Filter) []Lease {
	waiters := map[*lease][]Awaiter{}
	for _, w := range t.inOrder() {
		if f.Workspace != "" && w.Workspace != f.Workspace {
			continue
		}
		for _, k := range w.Keys {
			t.conflicts(t.spaces[w.Workspace], &w.Request, k, func(l *lease) bool {
				if l.delegation == nil && !slices.ContainsFunc(waiters[l], func(o Awaiter) bool { return o.Holder == w.Holder }) {
					waiters[l] = append(waiters[l], Awaiter{Holder: w.Holder, Since: w.since, Op: w.Op})
				}
				return true
			})
		}
	}
	out := []Lease{}
	for holder, of := range t.holders {
		if f.Holder != "" && holder != f.Holder {
			continue
		}
		for l := range of {
			if f.Workspace != "" && l.Workspace != f.Workspace || f.Path != "" && l.Path != f.Path {
				continue
			}
			c := l.Lease
			c.Waiting = waiters[l]
			c.Waiters = make([]string, 0, len(c.Waiting)) // a list in JSON, not null
			for _, w := range c.Waiting {
				c.Waiters = append(c.Waiters, w.Holder)
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Token, b.Token))
	})
	return out
}

// Holders returns at most limit leases that would conflict with a write to path by a holder that
// has none: those on the path and those of trees that contain it.
func (t *Table) Holders(workspace, path string, limit int) ([]Lease, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	out := []Lease{}
	if sp := t.spaces[workspace]; sp != nil && limit > 0 {
		t.conflicts(sp, &Request{}, Key{Path: path, Mode: Write}, func(l *lease) bool {
			if l.delegation == nil {
				out = append(out, l.Lease)
			}
			return len(out) < limit
		})
	}
	return out, nil
}

// Explicit returns the explicit leases that want selects, in order of their tokens.
func (t *Table) Explicit(want func(Lease) bool) []Lease {
	out := []Lease{}
	for l := range t.explicit {
		if want == nil || want(l.Lease) {
			out = append(out, l.Lease)
		}
	}
	slices.SortFunc(out, func(a, b Lease) int { return cmp.Compare(a.Token, b.Token) })
	return out
}

// LastToken returns the highest token so far.
func (t *Table) LastToken() uint64 { return t.token }

// Session reports whether an agent has a session, and whether it is connected.
func (t *Table) Session(agent string) (known, live bool) {
	s := t.sessions[agent]
	return s != nil, s != nil && s.live
}
