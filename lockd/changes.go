package lockd

import (
	"time"

	"polis/lockd/table"
)

const (
	// changesEvery is how long changes of leases are collected for one call of OnChanges.
	changesEvery = 250 * time.Millisecond
	// maxChangeBytes bounds what is kept of one holder meanwhile.
	maxChangeBytes = 256 << 10
	changeBytes    = 128 // of one change, beside its path
)

// Change is what happened to a lease of a holder since the last call of OnChanges.
type Change struct {
	Lease
	// Granted: it was granted at least once. Held: the holder has it now. Neither: it ended, and
	// was granted earlier.
	Granted, Held bool
	At            time.Time // of the last change
}

// Changes are the leases of one holder that changed, in order of their first change.
type Changes struct {
	Workspace, Holder string
	List              []Change
	// Missed counts the changes for which there was no room.
	Missed int
}

type changeKey struct {
	path     string
	explicit bool
}

type holderOf struct{ workspace, holder string }

// changes collects the changes of one holder.
type changes struct {
	Changes
	at    map[changeKey]int
	bytes int
}

// noteChange is called for each lease that is granted or ends, with s.mu held: a lease that changes
// often meanwhile is one change.
func (s *Server) noteChange(l Lease, held bool) {
	of := holderOf{l.Workspace, l.Holder}
	c := s.changes[of]
	if c == nil {
		c = &changes{Changes: Changes{Workspace: l.Workspace, Holder: l.Holder}, at: map[changeKey]int{}}
		s.changes[of] = c
		s.wakeChanges()
	}
	key := changeKey{l.Path, l.Explicit}
	i, known := c.at[key]
	switch {
	case known:
	case c.bytes+len(l.Path)+changeBytes > maxChangeBytes:
		c.Missed++
		return
	default:
		i = len(c.List)
		c.at[key], c.bytes = i, c.bytes+len(l.Path)+changeBytes
		c.List = append(c.List, Change{})
	}
	granted := c.List[i].Granted
	c.List[i] = Change{Lease: l, Granted: granted || held, Held: held, At: s.Now()}
}

func (s *Server) wakeChanges() {
	select {
	case s.changesDue <- struct{}{}:
	default:
	}
}

// deliverChanges calls OnChanges with what was collected.
func (s *Server) deliverChanges() {
	s.mu.Lock()
	all := s.changes
	s.changes = map[holderOf]*changes{}
	s.mu.Unlock()
	for _, c := range all {
		s.OnChanges(c.Changes)
	}
}

// watchChanges makes the table note its changes, if OnChanges is set.
func (s *Server) watchChanges(t *table.Table) {
	s.changes, s.changesDue = map[holderOf]*changes{}, make(chan struct{}, 1)
	if s.OnChanges != nil {
		t.Changed = s.noteChange
	}
}
