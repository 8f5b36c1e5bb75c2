package cases

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
)

// Bounds of what is kept.
const (
	maxOpen     = 500
	maxResolved = 100
	maxEvidence = 16   // facts of one case
	maxText     = 1024 // bytes of one text
)

// ErrFull is returned if as many cases are open as are kept.
var ErrFull = errors.New("too many cases are open")

// Kept is what is saved.
type Kept struct {
	// Last is the number of the last case.
	Last  uint64     `json:"last"`
	Cases []api.Case `json:"cases"`
}

// Change is what happened to a case.
type Change string

// The changes.
const (
	Opened   Change = "opened"
	Updated  Change = "updated"
	Resolved Change = "resolved"
)

// Book has the cases. Set the fields, then Load.
type Book struct {
	Now func() time.Time
	// Save keeps k. A change that it refuses does not happen.
	Save func(k Kept) error
	// Changed is called after a change of a case, outside of the lock; nil is allowed.
	Changed func(what Change, c api.Case)

	mu sync.Mutex
	k  Kept // oldest first
}

// Load takes over what was saved. It bounds it: the file can be of another version, or damaged.
func (b *Book) Load(k Kept) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.k = Kept{Last: k.Last}
	for _, c := range k.Cases {
		var n uint64
		if _, err := fmt.Sscanf(c.ID, "case-%d", &n); err != nil || c.Agent == "" || c.Kind == "" || !known(c.State) || (c.Resolution != nil) == c.Open() {
			continue
		}
		b.k.Last = max(b.k.Last, n)
		if len(b.k.Cases) < maxOpen+maxResolved {
			b.k.Cases = append(b.k.Cases, bounded(c))
		}
	}
}

func known(s api.CaseState) bool {
	return s == api.CasePending || s == api.CaseMergeRequested || s == api.CaseZombieDetected || s == api.CaseResolved
}

// Open opens a case, or updates the open one of the same agent, kind and incident. fresh says that
// it was not open before. An incident that a person resolved stays resolved: the resolved case is
// returned. ErrFull: too many are open.
func (b *Book) Open(c api.Case) (kept api.Case, fresh bool, err error) {
	if c.Agent == "" || c.Kind == "" || c.State == api.CaseResolved || !known(c.State) {
		return c, false, fmt.Errorf("open case: it has agent %q, kind %q and state %q: all must be given", c.Agent, c.Kind, c.State)
	}
	c = bounded(c)
	now := b.Now().UTC()
	what, changed := Updated, true
	kept, err = b.change(func(k *Kept) (api.Case, error) {
		i := slices.IndexFunc(k.Cases, func(o api.Case) bool { return same(o, c) && o.Open() })
		if i >= 0 {
			o := &k.Cases[i]
			o.Seen++
			if o.State != c.State || o.Kind != c.Kind || !slices.Equal(o.Evidence, c.Evidence) || o.Next != c.Next || o.Resolves != c.Resolves || o.Rewind != c.Rewind {
				o.State, o.Kind, o.Evidence, o.Next, o.Resolves, o.Rewind, o.Task, o.Generation, o.Updated = c.State, c.Kind, c.Evidence, c.Next, c.Resolves, c.Rewind, c.Task, c.Generation, now
				return *o, nil
			}
			changed = false
			return *o, errUnsaved
		}
		if i := slices.IndexFunc(k.Cases, func(o api.Case) bool { return same(o, c) && o.Resolution != nil && o.Resolution.By != "" }); i >= 0 {
			changed = false
			return k.Cases[i], errUnsaved
		}
		if digest(k.Cases).Open >= maxOpen {
			return c, ErrFull
		}
		if o := reopened(k.Cases, c, now); o != nil {
			c.ID, c.Opened, c.Updated, c.Seen, c.Escalated, c.EscalatedAt, c.Resolution = o.ID, o.Opened, now, o.Seen+1, o.Escalated, o.EscalatedAt, nil
			*o, fresh = c, true
			return c, nil
		}
		k.Last++
		c.ID, c.Opened, c.Updated, c.Seen, c.Escalated, c.EscalatedAt, c.Resolution = fmt.Sprintf("case-%d", k.Last), now, now, 1, 0, time.Time{}, nil
		k.Cases = append(k.Cases, c)
		what, fresh = Opened, true
		return c, nil
	})
	if err != nil {
		return kept, false, fmt.Errorf("open case of agent %s: %w", c.Agent, err)
	}
	if changed {
		b.publish(what, kept)
	}
	return kept, fresh, nil
}

// same reports whether two cases are about one incident.
func same(a, b api.Case) bool {
	return a.Workspace == b.Workspace && a.Agent == b.Agent && kindOf(a) == kindOf(b) && a.Incident == b.Incident
}

// Resolve ends an open case for a person.
func (b *Book) Resolve(id, by, note string) (api.Case, error) {
	out := b.end(func(c api.Case) bool { return c.ID == id }, by, note)
	if out.err != nil {
		return api.Case{}, api.Errorf(api.CodeStateNotSaved, "resolve case %s: %w", api.Shorten(id, 64), out.err).WithHint("free space in the state directory, or make it writable")
	}
	if len(out.cases) == 1 {
		return out.cases[0], nil
	}
	c, err := b.Get(id)
	if err != nil {
		return c, err
	}
	return c, api.Errorf(api.CodeBadState, "case %s is resolved already", c.ID).WithHint("polisctl patrol show %s shows how", c.ID)
}

// Settle ends the open cases that match, since the facts did: how says which.
func (b *Book) Settle(match func(api.Case) bool, how string) ([]api.Case, error) {
	out := b.end(match, "", how)
	return out.cases, out.err
}

type ended struct {
	cases []api.Case
	err   error
}

func (b *Book) end(match func(api.Case) bool, by, how string) (out ended) {
	now := b.Now().UTC()
	_, out.err = b.change(func(k *Kept) (api.Case, error) {
		for i := range k.Cases {
			c := &k.Cases[i]
			if !c.Open() || !match(*c) {
				continue
			}
			c.State, c.Updated = api.CaseResolved, now
			c.Resolution = &api.CaseResolution{At: now, By: by, How: oneLine(how)}
			out.cases = append(out.cases, *c)
			c.Evidence = []string{} // the digest
		}
		if len(out.cases) == 0 {
			return api.Case{}, errUnsaved
		}
		trim(k)
		return api.Case{}, nil
	})
	if out.err != nil {
		out.cases = nil
	}
	for _, c := range out.cases {
		b.publish(Resolved, c)
	}
	return out
}

// Escalated counts that a person was notified of a case, and notes when.
func (b *Book) Escalated(id string) error {
	now := b.Now().UTC()
	_, err := b.change(func(k *Kept) (api.Case, error) {
		for i := range k.Cases {
			if k.Cases[i].ID == id {
				k.Cases[i].Escalated++
				k.Cases[i].EscalatedAt = now
				return k.Cases[i], nil
			}
		}
		return api.Case{}, errUnsaved
	})
	return err
}

// errUnsaved reports that a change changed nothing that must be saved.
var errUnsaved = errors.New("unsaved")

// change changes a copy of what is kept, saves it, and takes it over.
func (b *Book) change(f func(k *Kept) (api.Case, error)) (api.Case, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := Kept{Last: b.k.Last, Cases: slices.Clone(b.k.Cases)}
	c, err := f(&k)
	if errors.Is(err, errUnsaved) {
		b.k = k
		return c, nil
	}
	if err == nil && b.Save != nil {
		err = b.Save(k)
	}
	if err != nil {
		return c, err
	}
	b.k = k
	return c, nil
}

func (b *Book) publish(what Change, c api.Case) {
	if b.Changed != nil {
		b.Changed(what, c)
	}
}

// trim drops the resolved cases that are too many, the oldest first.
func trim(k *Kept) {
	over := digest(k.Cases).Resolved - maxResolved
	if over <= 0 {
		return
	}
	order := slices.Clone(k.Cases)
	order = slices.DeleteFunc(order, func(c api.Case) bool { return c.Open() })
	slices.SortStableFunc(order, func(a, b api.Case) int { return a.Updated.Compare(b.Updated) })
	drop := map[string]bool{}
	for _, c := range order[:over] {
		drop[c.ID] = true
	}
	k.Cases = slices.DeleteFunc(k.Cases, func(c api.Case) bool { return drop[c.ID] })
}

// Get returns a case.
func (b *Book) Get(id string) (api.Case, error) {
	for _, c := range b.List("", true) {
		if c.ID == id {
			return c, nil
		}
	}
	return api.Case{}, api.Errorf(api.CodeNotFound, "there is no case %q", api.Shorten(id, 64)).WithHint("polisctl patrol cases --all lists them")
}

// List returns the cases of a workspace ("" = all), oldest first; all: the resolved ones too.
func (b *Book) List(workspace string, all bool) []api.Case {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []api.Case{}
	for _, c := range b.k.Cases {
		if (all || c.Open()) && (workspace == "" || c.Workspace == workspace) {
			c.Evidence = slices.Clone(c.Evidence)
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Case) int { return cmp.Or(a.Opened.Compare(b.Opened), strings.Compare(a.ID, b.ID)) })
	return out
}

// Digest counts them.
func (b *Book) Digest() api.CaseDigest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return digest(b.k.Cases)
}

func digest(all []api.Case) (d api.CaseDigest) {
	for _, c := range all {
		switch c.State {
		case api.CasePending:
			d.Pending++
		case api.CaseMergeRequested:
			d.MergeRequested++
		case api.CaseZombieDetected:
			d.ZombieDetected++
		case api.CaseResolved:
			d.Resolved++
		}
	}
	d.Open = d.Pending + d.MergeRequested + d.ZombieDetected
	return d
}
