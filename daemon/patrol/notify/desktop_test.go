package notify

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/host/desktop"
	"polis/internal/need"
)

// The users of the desktops of a test.
const silent, other = 1000, 1001

// desks are desktops, of which that of the user silent does not answer, and the notifier of their messages.
type desks struct {
	*Notifier
	Desktop
	log bytes.Buffer

	mu    sync.Mutex
	tries map[uint32][]time.Duration
	shown []string
	fail  error // of the user silent
}

func newDesks(t *testing.T) *desks {
	need.Root(t) // it shows as other users
	d := &desks{tries: map[uint32][]time.Duration{}, fail: &desktop.UnseenError{Reason: desktop.Failed, Detail: "it did not end in 15s"}}
	log, began := slog.New(slog.NewTextHandler(&d.log, nil)), time.Now()
	d.Desktop = Desktop{Log: log, show: func(ctx context.Context, u *syscall.Credential, n desktop.Note) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tries[u.Uid] = append(d.tries[u.Uid], time.Since(began))
		if u.Uid == silent && d.fail != nil {
			d.mu.Unlock()
			defer d.mu.Lock()
			select {
			case <-time.After(15 * time.Second):
				return d.fail
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		d.shown = append(d.shown, n.Lines[0])
		return nil
	}}
	d.Notifier = &Notifier{Log: log, Settings: func() Settings { return Settings{} }, Deliver: Targets{Desktop: &d.Desktop}.Deliver}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; d.Wait() })
	return d
}

// say sends a message to a user.
func (d *desks) say(uid uint32, text string) {
	d.Send(Message{Notice: func(context.Context) (Notice, bool) {
		return Notice{User: User{UID: uid, GID: uid}, Event: api.Event{Message: text}}, true
	}})
}

// TestADesktopThatDoesNotAnswerDelaysNobodyElse: it is tried once in a minute, and the messages meanwhile are counted.
func TestADesktopThatDoesNotAnswerDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesks(t)
		began := time.Now()
		for i := range 40 {
			d.say(silent, fmt.Sprint(i))
		}
		d.say(other, "other")
		synctest.Wait()
		require.Equal(t, []string{"other"}, d.shown)
		require.Zero(t, time.Since(began))
		require.Contains(t, d.Check().Found, fmt.Sprintf("user 1000: %d not shown since the last one that was (%s)", 40-1-maxHeld, Behind))
		time.Sleep(16 * time.Second)
		synctest.Wait()
		require.Contains(t, d.Check().Found, "user 1000: 40 not shown since the last one that was ("+string(desktop.Failed)+")")
		for range 20 {
			d.say(silent, "more")
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		require.Contains(t, d.Check().Found, "user 1000: 60 not shown")
		require.Len(t, d.tries[silent], 3, "in 216 s, of which a try takes 15")
		for i, at := range d.tries[silent][1:] {
			require.GreaterOrEqual(t, at-d.tries[silent][i], 75*time.Second)
		}
		require.Equal(t, 2, strings.Count(d.log.String(), "not shown"), "each reason is logged once: %s", &d.log)
		require.NotContains(t, d.log.String(), "notification failed")

		d.mu.Lock()
		d.fail = nil
		d.mu.Unlock()
		time.Sleep(time.Minute)
		for i := range maxHeld {
			d.say(silent, fmt.Sprint("in order ", i))
		}
		synctest.Wait()
		require.Len(t, d.shown, 1+maxHeld)
		for i, text := range d.shown[1:] {
			require.Equal(t, fmt.Sprint("in order ", i), text)
		}
		require.Equal(t, api.CheckOK, d.Check().State)
	})
}

// TestAUserWhoIsNotLoggedInIsTriedEachTime: the next message is seen once the user is.
func TestAUserWhoIsNotLoggedInIsTriedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesks(t)
		d.fail = &desktop.UnseenError{Reason: desktop.NoSession}
		for range 3 {
			d.say(silent, "x")
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		require.Len(t, d.tries[silent], 3)
		require.Contains(t, d.Check().Found, "user 1000: 3 not shown")
	})
}

// TestAnEndDoesNotWaitForMessagesToDesktops: those that wait are not shown then.
func TestAnEndDoesNotWaitForMessagesToDesktops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesks(t)
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			require.NoError(t, d.Show(ctx, User{UID: silent, GID: silent}, api.Event{}))
		}
		synctest.Wait()
		cancel()
		began := time.Now()
		d.Wait()
		require.Zero(t, time.Since(began))
		require.Len(t, d.tries[silent], 1)
		require.Empty(t, d.log.String())
	})
}
