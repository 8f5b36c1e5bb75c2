package lockd

import (
	"context"
	"time"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	EventGranted  EventKind = "granted-explicit" // a lease asked for by name
	EventConflict EventKind = "conflict"         // Waiter was refused because of Holder
	EventWaiting  EventKind = "waiting"          // Waiter waits for Holder
	EventReleased EventKind = "released"         // an explicit lease ended, Why says how
	EventBroken   EventKind = "broken"           // an administrator took Holder's lease
	EventStale    EventKind = "stale"            // the connection of Holder's session is lost
	EventGone     EventKind = "session-ended"    // Holder's session and leases are gone
)

// Event is a change of leases that observers of the server get.
type Event struct {
	Kind      EventKind `json:"kind"`
	Time      time.Time `json:"time"`
	Workspace string    `json:"workspace,omitempty"`
	Path      string    `json:"path,omitempty"`
	Holder    string    `json:"holder,omitempty"`
	Waiter    string    `json:"waiter,omitempty"`
	Mode      Mode      `json:"lock_type,omitempty"`
	Since     time.Time `json:"acquired_at,omitzero"`
	Token     uint64    `json:"token,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	// Op and Pid are of the request that was granted, refused or waits.
	Op  string `json:"op,omitempty"`
	Pid uint32 `json:"pid,omitempty"`
	Why string `json:"why,omitempty"`
	// Explicit: the lease was requested by name.
	Explicit bool `json:"explicit,omitempty"`
	// By and Note are of a break: who did it, and the reason given.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// maxEvents is how far OnEvent may lag behind.
const maxEvents = 4096

func (e Event) about(l Lease) Event {
	e.Workspace, e.Path, e.Holder, e.Mode = l.Workspace, l.Path, l.Holder, l.Mode
	e.Since, e.Token, e.Reason = l.Since, l.Token, l.Reason
	return e
}

// event queues e for OnEvent and never blocks.
func (s *Server) event(e Event) {
	if s.OnEvent == nil {
		return
	}
	e.Time = s.Now()
	select {
	case s.events <- e:
	default:
		s.stats.eventsLost.Add(1)
	}
}

// deliver calls OnEvent, one event after the other, and OnChanges.
func (s *Server) deliver(ctx context.Context) {
	var due <-chan time.Time
	for {
		select {
		case e := <-s.events:
			s.OnEvent(e)
		case <-s.changesDue:
			if due == nil {
				due = time.After(changesEvery)
			}
		case <-due:
			due = nil
			s.deliverChanges()
		case <-ctx.Done():
			s.deliverChanges()
			return
		}
	}
}
