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

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/host/desktop"
)

// Desktop shows messages on the desktops of the users that they are for. A message that cannot be shown is no error,
// since a user who is not logged in is none: it is counted until one is shown to the user. The zero value is ready but
// for Log.
type Desktop struct {
	Log *slog.Logger

	mu     sync.Mutex
	unseen map[uint32]unseen
	logged map[uint32]map[desktop.Reason]bool // since one was shown
}

// unseen is how many messages were not shown to a user, and why the last one was not.
type unseen struct {
	n   int
	why desktop.Reason
}

// Show shows an event to a user.
func (d *Desktop) Show(ctx context.Context, u User, ev api.Event) error {
	if u.UID == 0 {
		d.missed(u.UID, &desktop.UnseenError{Reason: NobodyToSee})
		return nil
	}
	cred, err := git.Credential(u.UID, u.GID)
	if err != nil {
		return err
	}
	err = desktop.Show(ctx, cred, note(ev))
	var un *desktop.UnseenError
	switch {
	case errors.As(err, &un):
		d.missed(u.UID, un)
		return nil
	case err != nil:
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.unseen, u.UID)
	delete(d.logged, u.UID)
	return nil
}

// NobodyToSee is why a message was not shown whose workspace has no user, or exists no more.
const NobodyToSee desktop.Reason = "the workspace has no user to show it to"

// missed counts a message that was not shown. The first for each reason is logged.
func (d *Desktop) missed(uid uint32, why *desktop.UnseenError) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
