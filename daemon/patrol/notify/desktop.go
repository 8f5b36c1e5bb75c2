package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/host/desktop"
)

const (
	// maxHeld is how many messages wait for those of the same user before them.
	maxHeld = 8
	// leaveAlone is how long nothing is shown to a user whose session did not work: each try takes a process and time.
	leaveAlone = time.Minute
)

// Desktop shows messages on the desktops of the users that they are for. A message that cannot be shown is no error,
// since a user who is not logged in is none: it is counted until one is shown to the user. No user waits for the desktop
// of another one. The zero value is ready but for Log.
type Desktop struct {
	Log *slog.Logger

	// show is desktop.Show, but in tests.
	show func(ctx context.Context, u *syscall.Credential, n desktop.Note) error

	mu     sync.Mutex
	seats  map[uint32]*seat
	unseen map[uint32]unseen
	logged map[uint32]map[desktop.Reason]bool // since one was shown
	wg     sync.WaitGroup                     // the goroutines of the seats
}

// seat is where one user sees messages. A goroutine shows them one after the other while there are some.
type seat struct {
	busy  bool
	held  []desktop.Note
	why   *desktop.UnseenError // the session did not work
	until time.Time            // it is left alone
}

// unseen is how many messages were not shown to a user, and why the last one was not.
type unseen struct {
	n   int
	why desktop.Reason
}

// Why a message was not shown, besides the reasons of package desktop.
const (
	// NobodyToSee is that of a message whose workspace has no user, or exists no more.
	NobodyToSee desktop.Reason = "the workspace has no user to show it to"
	// Behind is that of one that comes while the session is slow.
	Behind desktop.Reason = "the session bus has not taken the messages before it yet"
)

// Show has an event shown to a user, until the end of ctx. It does not wait for that: see Wait.
func (d *Desktop) Show(ctx context.Context, u User, ev api.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u.UID == 0 {
		d.missed(u.UID, &desktop.UnseenError{Reason: NobodyToSee})
		return nil
	}
	cred, err := git.Credential(u.UID, u.GID)
	if err != nil {
		return err
	}
	s := d.seats[u.UID]
	if s == nil { // at most one for each user of a workspace
		if d.seats == nil {
			d.seats = map[uint32]*seat{}
		}
		s = &seat{}
		d.seats[u.UID] = s
	}
	n := note(ev)
	switch {
	case s.busy && len(s.held) == maxHeld:
		d.missed(u.UID, &desktop.UnseenError{Reason: Behind})
	case s.busy:
		s.held = append(s.held, n)
	case time.Now().Before(s.until):
		d.missed(u.UID, s.why)
	default:
		s.busy = true
		d.wg.Go(func() {
			for more := true; more; {
				n, more = d.shown(ctx, u.UID, s, d.try(ctx, cred, n))
			}
		})
	}
	return nil
}

// Wait returns when nothing is shown any more: soon after the end of the contexts of Show.
func (d *Desktop) Wait() { d.wg.Wait() }

func (d *Desktop) try(ctx context.Context, u *syscall.Credential, n desktop.Note) error {
	if d.show != nil {
		return d.show(ctx, u, n)
	}
	return desktop.Show(ctx, u, n)
}

// shown notes how a message went, and returns the next one of the user. If the session does not work, those that are
// held are not shown.
func (d *Desktop) shown(ctx context.Context, uid uint32, s *seat, err error) (next desktop.Note, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var un *desktop.UnseenError
	switch {
	case ctx.Err() != nil:
		s.held = nil
	case errors.As(err, &un):
		d.missed(uid, un)
		if un.Reason == desktop.Failed {
			s.why, s.until = un, time.Now().Add(leaveAlone)
			for range s.held {
				d.missed(uid, un)
			}
			s.held = nil
		}
	case err != nil:
		d.Log.Warn("notification failed", "op", "notify", "uid", uid, "err", err)
	default:
		delete(d.unseen, uid)
		delete(d.logged, uid)
	}
	if s.busy = len(s.held) > 0; !s.busy {
		return desktop.Note{}, false
	}
	next, s.held = s.held[0], s.held[1:]
	return next, true
}

// missed counts a message that was not shown. The first for each reason is logged. mu is held.
func (d *Desktop) missed(uid uint32, why *desktop.UnseenError) {
	if d.unseen == nil {
		d.unseen, d.logged = map[uint32]unseen{}, map[uint32]map[desktop.Reason]bool{}
	}
	d.unseen[uid] = unseen{d.unseen[uid].n + 1, why.Reason}
	if d.logged[uid] == nil {
		d.logged[uid] = map[desktop.Reason]bool{}
	}
	if !d.logged[uid][why.Reason] {
		d.logged[uid][why.Reason] = true
		d.Log.Info("notification not shown on desktop; those that follow for the same reason only counted", "op", "notify", "uid", uid, "err", why)
	}
}

// Check is what polisctl doctor shows.
func (d *Desktop) Check() api.Check {
	c := api.Check{Name: "desktop notifications", State: api.CheckOK, Found: "shown to the users of the workspaces"}
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, uid := range slices.Sorted(maps.Keys(d.unseen)) {
		found = append(found, fmt.Sprintf("user %d: %d not shown since the last one that was (%s)", uid, d.unseen[uid].n, d.unseen[uid].why))
	}
	if len(found) > 0 {
		c.State, c.Found = api.CheckWarn, strings.Join(found, "; ")
		c.Cost = "people do not see on their desktop what agents wait for; polisctl approvals and polisctl status show it"
		c.Fix = "log in to a desktop as that user, or set notify.command or notify.webhook to what reaches a person elsewhere"
		c.NoCommand = "only a login makes a session"
	}
	return c
}

// note is what is shown of an event: its sentence, and what an agent asks.
func note(ev api.Event) desktop.Note {
	n := desktop.Note{Title: "polis", Lines: []string{ev.Message}}
	if ev.Agent != "" {
		n.Title += ": " + ev.Agent
	}
	if q, ok := ev.Data["question"].(api.Approval); ok {
		n.Lines = []string{q.What, ev.Message}
	}
	if dropped, ok := ev.Data["dropped"].(int); ok {
		n.Lines = append(n.Lines, fmt.Sprintf("%d messages before it were dropped", dropped))
	}
	return n
}
