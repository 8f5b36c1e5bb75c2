package notify

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/config"
	"polis/daemon/patrol/cases"
	"polis/daemon/store/events"
)

// escalating is a book with an open case that is escalated in a bubble, and the times of the
// messages since the case was opened.
type escalating struct {
	*Escalator
	id  string
	log bytes.Buffer

	mu   sync.Mutex
	how  config.Escalation
	sent []time.Duration
}

func (e *escalating) set(how config.Escalation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.how = how
}

func (e *escalating) times() []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]time.Duration(nil), e.sent...)
}

func (e *escalating) count(t *testing.T) int {
	t.Helper()
	c, err := e.Cases.Get(e.id)
	require.NoError(t, err)
	return c.Escalated
}

// escalate runs until the test ends.
func escalate(t *testing.T, how config.Escalation) *escalating {
	e := &escalating{how: how}
	hub := events.New(1)
	e.Escalator = &Escalator{Log: slog.New(slog.NewTextHandler(&e.log, nil)), Hub: hub,
		Cases:    &cases.Book{Now: time.Now, Changed: func(what cases.Change, c api.Case) { hub.Publish(cases.Event(what, c)) }},
		User:     func(string) (User, bool) { return User{}, false },
		Settings: func() config.Escalation { e.mu.Lock(); defer e.mu.Unlock(); return e.how }}
	n := e.notifier()
	deliver, began := n.Deliver, time.Now()
	n.Deliver = func(ctx context.Context, u User, ev api.Event) (string, error) {
		e.mu.Lock()
		e.sent = append(e.sent, time.Since(began))
		e.mu.Unlock()
		return deliver(ctx, u, ev)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.Run(ctx) })
	wg.Go(func() { e.follow(ctx, n) })
	t.Cleanup(func() { stop(); wg.Wait() })
	c, fresh, err := e.Cases.Open(api.Case{State: api.CasePending, Kind: "breaker", Workspace: "w", Agent: "a", Evidence: []string{"41 refusals"}, Next: "polisctl agents thaw a"})
	require.NoError(t, err)
	require.True(t, fresh)
	e.id = c.ID
	return e
}

// While a case is open and nobody answers, it is sent again after times that double, at most a
// minute late, and no more once it is resolved.
func TestEscalationBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := escalate(t, config.Escalation{Journal: "err", Again: setting.Duration(time.Hour), Pause: setting.Duration(5 * time.Second)})
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		sent := e.times()
		require.Len(t, sent, 5)
		for i, want := range []time.Duration{0, time.Hour, 3 * time.Hour, 7 * time.Hour, 15 * time.Hour} {
			require.InDelta(t, want, sent[i], float64(time.Minute+time.Second), "message %d", i)
		}
		require.Equal(t, 5, e.count(t))
		_, err := e.Cases.Resolve(e.id, "root", "seen")
		require.NoError(t, err)
		time.Sleep(100 * time.Hour)
		synctest.Wait()
		require.Len(t, e.times(), 5)
		escalationText := e.log.String()
		require.Contains(t, escalationText, "41 refusals")
		require.Contains(t, escalationText, "polisctl agents thaw a; polisctl patrol show "+e.id)
	})
}

// A message that no target took counts as none: it is tried again every five minutes, and the back-off
// begins with the first one that a target took. One target is enough.
func TestAnEscalationThatNoTargetTakesIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		how := config.Escalation{Command: []string{"/bin/true"}, Journal: config.JournalOff, Again: setting.Duration(time.Hour), Timeout: setting.Duration(time.Second)}
		e := escalate(t, how) // the workspace has no user that the command could run as
		time.Sleep(time.Hour)
		synctest.Wait()
		sent := e.times()
		require.InDelta(t, 12, len(sent), 2)
		for i := range sent[1:] {
			require.GreaterOrEqual(t, sent[i+1]-sent[i], retry)
		}
		require.Zero(t, e.count(t))
		require.Equal(t, len(sent), strings.Count(e.log.String(), "notification failed"))

		how.Journal = "warning" // the command still fails
		e.set(how)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, e.count(t))
		n := len(e.times())
		time.Sleep(45 * time.Minute)
		synctest.Wait()
		require.Len(t, e.times(), n, "an hour has passed since the case was opened, but not since the message")
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, e.count(t))
	})
}

// Off: nothing is sent, and the case stays.
func TestEscalationCanBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := escalate(t, config.Escalation{Journal: config.JournalOff, Again: setting.Duration(time.Hour)})
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.Empty(t, e.times())
		require.Zero(t, e.count(t))
	})
}
