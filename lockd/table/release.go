package table

import (
	"fmt"
	"slices"
)

// remove takes a lease out of every index. The caller pumps the queue.
func (t *Table) remove(l *lease) {
	l.detach()
	of := t.holders[l.Holder]
	delete(of, l)
	if len(of) == 0 {
		delete(t.holders, l.Holder)
	}
	delete(t.expiring, l)
	delete(t.explicit, l)
	t.leases--
	t.spend(l)
	if t.Changed != nil && l.delegation == nil {
		t.Changed(l.Lease, false)
	}
}

// drop removes a lease that its holder has not released.
func (t *Table) drop(l *lease, why Why) {
	t.remove(l)
	t.emit(Effect{Kind: Dropped, Lease: l.Lease, Holder: l.Holder, Why: why})
}

// Release releases leases of a session. Paths that it does not hold are ignored: a break may have
// come first.
func (t *Table) Release(workspace, holder, session string, paths ...string) error {
	if s := t.sessions[holder]; s == nil || s.id != session {
		return fmt.Errorf("release for %s: %w", holder, ErrNoSession)
	}
	sp := t.spaces[workspace]
	if sp == nil {
		return nil
	}
	r := Request{Holder: holder}
	for _, p := range paths {
		if l := t.held(sp, &r, Key{Path: p}); l != nil {
			t.remove(l)
		}
	}
	t.pump(workspace)
	return nil
}

// Unlock releases an explicit lease, or returns ErrNotHeld.
func (t *Table) Unlock(workspace, holder, path string) (Lease, error) {
	if sp := t.spaces[workspace]; sp != nil {
		r := Request{Holder: holder, Explicit: true}
		if l := t.held(sp, &r, Key{Path: path}); l != nil {
			t.drop(l, WhyUnlocked)
			t.pump(workspace)
			return l.Lease, nil
		}
	}
	return Lease{}, fmt.Errorf("unlock %s for %s: %w", path, holder, ErrNotHeld)
}

// Break takes every lease on exactly this path from its holder, or returns ErrNotHeld.
func (t *Table) Break(workspace, path string) ([]Lease, error) {
	var out []Lease
	if sp := t.spaces[workspace]; sp != nil {
		p := placeOf(path, false)
		if n := sp.root(p).find(p.rel); n != nil {
			for _, l := range slices.Clone(n.leases) {
				if l.Path == path && l.delegation == nil {
					t.noteBroken(l)
					t.drop(l, WhyBroken)
					out = append(out, l.Lease)
				}
			}
		}
		t.pump(workspace)
	}
	if out == nil {
		return nil, fmt.Errorf("break %s: %w", path, ErrNotHeld)
	}
	return out, nil
}
