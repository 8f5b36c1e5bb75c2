package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// nobody is the user of the commands; as another user than root a test runs them as itself.
func nobody() User {
	if uid := os.Geteuid(); uid != 0 {
		return User{UID: uint32(uid), GID: uint32(os.Getegid()), Home: "/nonexistent"}
	}
	return User{UID: 65534, GID: 65534, Home: "/nonexistent"}
}

func shell(script string, args ...string) Command {
	return Command{Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...), Timeout: time.Minute}
}

// openDir is a directory that the command's user can write to.
func openDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "polis-notify-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

func TestTheCommandGetsTheEventAndNoPrivilege(t *testing.T) {
	ev := api.Event{ID: 7, Type: "approval:asked", Agent: "alice", Message: "it asks; $(touch /tmp/x)\n", Data: map[string]any{"id": "alice.x"}}
	out, err := shell(`read -r line; printf '%s\n' "$line"; id -u; id -G; pwd; echo "$HOME $1"; test -t 0 || echo no terminal`, "an argument").Run(t.Context(), nobody(), ev)
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	var got api.Event
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
	require.Equal(t, ev, got)
	u := nobody()
	require.Equal(t, fmt.Sprint(u.UID), lines[1])
	if os.Geteuid() == 0 {
		require.Equal(t, fmt.Sprint(u.GID), lines[2], "no group of polisd's")
	}
	require.Equal(t, []string{"/", "/nonexistent an argument", "no terminal"}, lines[3:])
}

func TestACommandIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		cmd  Command
		user User
		ev   api.Event
		err  string
	}{
		"as root":            {cmd: shell("true"), user: User{}, err: "is not run as root"},
		"without a program":  {cmd: Command{}, user: nobody(), err: "there is no command"},
		"with a large event": {cmd: shell("true"), user: nobody(), ev: api.Event{Message: strings.Repeat("x", maxInput)}, err: "at most 262144"},
		"that is not there":  {cmd: Command{Argv: []string{"/nonexistent/x"}}, user: nobody(), err: "no such file"},
	} {
		_, err := c.cmd.Run(t.Context(), c.user, c.ev)
		require.ErrorContains(t, err, c.err, what)
	}
}

func TestACommandThatFailsOrPrintsMuchOrDoesNotEnd(t *testing.T) {
	out, err := shell(`echo why >&2; exit 3`).Run(t.Context(), nobody(), api.Event{})
	require.ErrorContains(t, err, "exit status 3")
	require.Equal(t, "why", out)

	out, err = shell(`head -c 1000000 /dev/zero | tr '\0' x; printf '\377'`).Run(t.Context(), nobody(), api.Event{})
	require.NoError(t, err)
	require.Len(t, out, maxOutput)

	c := shell(`echo began; while :; do sleep 1; done`)
	c.Timeout = 300 * time.Millisecond
	_, err = c.Run(t.Context(), nobody(), api.Event{})
	require.ErrorContains(t, err, "it did not end in 300ms")

	// One that does not read its input ends all the same.
	_, err = shell(`true`).Run(t.Context(), nobody(), api.Event{Message: strings.Repeat("x", 200<<10)})
	if err != nil {
		require.ErrorIs(t, err, syscall.EPIPE)
	}
}

// TestWhatACommandLeavesRunningEnds: also when it holds the output.
func TestWhatACommandLeavesRunningEnds(t *testing.T) {
	dir := openDir(t)
	_, err := shell(`sleep 1000 & echo $! > "$1/pid"`, dir).Run(t.Context(), nobody(), api.Event{})
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	stat := "/proc/" + strings.TrimSpace(string(b)) + "/stat"
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(b), ") Z ")
	}, 30*time.Second, 10*time.Millisecond)
}

// desk is a notifier whose messages are kept.
type desk struct {
	*Notifier
	sent []api.Event
	at   []time.Time
	hold chan struct{} // not nil: a message waits for it
}

func newDesk(t *testing.T, pause time.Duration) *desk {
	d := &desk{}
	d.Notifier = &Notifier{Settings: func() Settings { return Settings{Pause: pause} }, Log: slog.New(slog.DiscardHandler),
		Deliver: func(_ context.Context, _ User, ev api.Event) (string, error) {
			if d.hold != nil {
				<-d.hold
			}
			d.sent, d.at = append(d.sent, ev), append(d.at, time.Now())
			return "", nil
		}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

func message(key string) Message {
	return Message{Key: key, Notice: func(context.Context) (Notice, bool) { return Notice{Event: api.Event{Message: key}}, true }}
}

func TestMessagesHaveAPauseBetweenThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, time.Minute)
		start := time.Now()
		for _, key := range []string{"a", "b", "a", "c", "b"} {
			d.Send(message(key))
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Len(t, d.sent, 3, "equal messages are one")
		for i, at := range d.at {
			require.Equal(t, time.Duration(i)*time.Minute, at.Sub(start))
			require.Equal(t, string("abc"[i]), d.sent[i].Message)
		}
		d.Send(message("a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, d.sent, 3)
		time.Sleep(DefaultAgain)
		synctest.Wait()
		d.Send(message("a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, d.sent, 4, "after that time it is worth a message again")
	})
}

func TestMessagesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, time.Second)
		d.hold = make(chan struct{})
		d.Send(message("first"))
		synctest.Wait() // it is being sent
		const more = 10
		for i := range MaxWaiting + more {
			d.Send(message(fmt.Sprint(i)))
		}
		close(d.hold)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, d.sent, 1+MaxWaiting)
		require.Equal(t, more, d.sent[1].Data["dropped"], "it is known how many were not sent")
		require.Equal(t, fmt.Sprint(more), d.sent[1].Message, "the oldest are dropped")
		for _, ev := range d.sent[2:] {
			require.Nil(t, ev.Data)
		}
		for i := range 3 * maxKeys {
			d.Send(message(fmt.Sprint("key", i)))
		}
		require.LessOrEqual(t, len(d.keys), maxKeys)
	})
}

// A question may be answered while its message waits: it costs no pause then.
func TestWhatIsNotWorthAMessageAnyMoreIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, time.Minute)
		start := time.Now()
		d.Send(Message{Notice: func(context.Context) (Notice, bool) { return Notice{}, false }})
		d.Send(message("b"))
		synctest.Wait()
		require.Len(t, d.sent, 1)
		require.Equal(t, start, d.at[0])

		off := &Notifier{Settings: func() Settings { return Settings{Off: true} }}
		off.Send(message("x"))
		require.Empty(t, off.waiting)
		require.Empty(t, off.keys)
	})
}
