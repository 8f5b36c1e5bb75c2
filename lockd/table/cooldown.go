package table

import (
	"fmt"
	"slices"
	"time"
)

const (
	// maxCoolDown bounds how long a path stays free of a holder whose explicit leases on it have
	// lasted as long as they may: a holder that was refused meanwhile comes again.
	maxCoolDown = time.Minute
	// maxSpent bounds the ended leases that are remembered of one holder.
	maxSpent = 1024
)

// spent is an explicit lease under a bound that ended a while ago.
type spent struct {
	workspace string
	place     place
	held      time.Duration // by this lease and those before it without a pause
	until     time.Time     // end of the pause that starts a new count
}

// spend notes that a lease has ended. A holder that takes the path again before the pause is
// over continues with the time it has had: else one that renews for ever would keep others out
// for ever.
func (t *Table) spend(l *lease) {
	if l.most == 0 {
		return
	}
	now := t.Now()
	end := now
	if !l.Expires.IsZero() && l.Expires.Before(now) {
		end = l.Expires
	}
	if t.spent == nil {
		t.spent = map[string][]spent{}
	}
	t.spent[l.Holder] = append(t.spent[l.Holder], spent{l.Workspace, l.place, l.carried + end.Sub(l.Since), now.Add(min(l.most/10, maxCoolDown))})
}

// carried returns how long a holder has had what overlaps with a key, without a pause, and
// when the pause is over.
func (t *Table) carried(r *Request, k Key) (held time.Duration, until time.Time) {
	now, p := t.Now(), placeOf(k.Path, k.Tree)
	for _, s := range t.spent[r.Holder] {
		if s.workspace == r.Workspace && s.until.After(now) && s.place.overlap(p) && s.held >= held {
			held, until = s.held, s.until
		}
	}
	return held, until
}

// cooled refuses a key that the holder has had as long as it may.
func (t *Table) cooled(r *Request, k Key) error {
	if !r.Explicit || r.Most == 0 {
		return nil
	}
	if held, until := t.carried(r, k); held >= r.Most {
		return fmt.Errorf("acquire for %s: %w: it has had %s for %s, and others may have it for the next %s",
			r.Holder, ErrLimit, k.Path, held.Round(time.Second), until.Sub(t.Now()).Round(time.Second))
	}
	if len(t.spent[r.Holder]) >= maxSpent {
		return fmt.Errorf("acquire for %s: %w: it has released %d explicit leases within %s", r.Holder, ErrLimit, maxSpent, maxCoolDown)
	}
	return nil
}

// forgetSpent forgets what no longer counts.
func (t *Table) forgetSpent(now time.Time) {
	for holder, list := range t.spent {
		if list = slices.DeleteFunc(list, func(s spent) bool { return !s.until.After(now) }); len(list) == 0 {
			delete(t.spent, holder)
		} else {
			t.spent[holder] = list
		}
	}
}
