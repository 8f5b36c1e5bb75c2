package lockd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
	"polis/lockd/table"
)

// needRoot skips without root, and fails where that would hide a test.
func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
}

// dialAsStranger runs in a child with another user id.
func dialAsStranger(path string) int {
	c, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println("dial:", err)
		return 0
	}
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 3
	}
	buf, err := appendFrame(nil, &message{Type: msgHello, Version: 1, Agent: "x", Workspace: ws, Session: "1", Secret: "1"})
	if err != nil {
		return 3
	}
	_, _ = c.Write(buf) // the server may have hung up already
	if n, err := c.Read(make([]byte, 1)); n == 0 && err != nil {
		fmt.Println("closed")
		return 0
	}
	fmt.Println("answered")
	return 0
}

func TestOnlyRootMayConnect(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "lockd-test-") // t.TempDir's parents are root's alone
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	s := serve(t, filepath.Join(dir, "s"))
	fi, err := os.Stat(s.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())

	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	exe := filepath.Join(dir, "dial")
	require.NoError(t, os.WriteFile(exe, self, 0o755))
	stranger := func() string {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "LOCKD_TEST_DIAL="+s.Path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	require.Contains(t, stranger(), "permission denied")
	require.NoError(t, os.Chmod(s.Path, 0o666))
	require.Equal(t, "closed\n", stranger(), "the peer's credentials count, not only the mode")
	require.Zero(t, s.Stats().Sessions)
}

func TestSocketPath(t *testing.T) {
	t.Run("left behind by a crash is replaced", func(t *testing.T) {
		path := socket(t)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		require.NoError(t, err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
		serve(t, path)
		join(t, path, "ann")
	})
	t.Run("of a live server is not", func(t *testing.T) {
		s := serve(t, socket(t))
		other := New()
		other.Path = s.Path
		require.ErrorContains(t, other.Open(), "another server")
		join(t, s.Path, "ann", func(c *Client) {})
	})
	t.Run("that is no socket is not touched", func(t *testing.T) {
		path := socket(t)
		require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
		other := New()
		other.Path = path
		require.ErrorContains(t, other.Open(), "no socket")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(b))
	})
	t.Run("is gone after Close", func(t *testing.T) {
		s := serve(t, socket(t))
		require.NoError(t, s.Close())
		require.NoFileExists(t, s.Path)
		require.NoError(t, s.Close())
	})
	t.Run("may come as a listener", func(t *testing.T) {
		path := socket(t)
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		serve(t, "", func(s *Server) { s.Listener = l })
		join(t, path, "ann")
	})
}

// raw is a connection that speaks the protocol by hand.
type raw struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, path string) *raw {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return &raw{t, c, bufio.NewReader(c)}
}

func (r *raw) send(m *message) {
	r.t.Helper()
	buf, err := appendFrame(nil, m)
	require.NoError(r.t, err)
	_, err = r.Write(buf)
	require.NoError(r.t, err)
}

func (r *raw) recv() *message {
	r.t.Helper()
	var m message
	_, err := readFrame(r.r, nil, &m)
	require.NoError(r.t, err)
	return &m
}

func (r *raw) hello(agent string) *raw {
	r.t.Helper()
	r.send(&message{Type: msgHello, Version: 1, Agent: agent, Workspace: ws, Session: "s", Secret: "s"})
	require.Equal(r.t, msgOK, r.recv().Type)
	return r
}

func (r *raw) requireEOF() {
	r.t.Helper()
	_, err := io.Copy(io.Discard, r.r)
	if err != nil {
		require.ErrorIs(r.t, err, syscall.ECONNRESET)
	}
}

func TestHostileConnections(t *testing.T) {
	s := serve(t, socket(t))
	good := join(t, s.Path, "good")
	for name, bytes := range map[string]string{
		"huge frame":    "\xff\xff\xff\xff",
		"no JSON":       "\x00\x00\x00\x03{{{",
		"not an object": "\x00\x00\x00\x02[]",
		"empty frame":   "\x00\x00\x00\x00",
		"unknown type":  "\x00\x00\x00\x09{\"t\":\"x\"}",
		"wrong version": "\x00\x00\x00\x15{\"t\":\"hello\",\"v\":999}",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s.Path)
			_, err := io.WriteString(c, bytes)
			require.NoError(t, err)
			c.requireEOF()
		})
	}
	t.Run("acquire before hello", func(t *testing.T) {
		c := dial(t, s.Path)
		c.send(&message{Type: msgAcquire, ID: 1, Keys: []wireKey{{Path: "f"}}})
		c.requireEOF()
	})
	t.Run("agent that calls itself a person", func(t *testing.T) {
		c := dial(t, s.Path)
		c.send(&message{Type: msgHello, Version: 1, Agent: "user:0", Workspace: ws, Session: "s", Secret: "s"})
		require.Equal(t, codeInvalid, c.recv().Code)
		c.requireEOF()
	})
	t.Run("malformed keys are refused, the session continues", func(t *testing.T) {
		c := dial(t, s.Path).hello("evil")
		for id, keys := range [][]wireKey{
			nil, {{Path: "../x"}}, {{Path: "b"}, {Path: "a"}}, {{Path: "a"}, {Path: "a"}}, {{Path: "f", Wait: -1}}, {{Path: "f", Wait: 1 << 62}},
		} {
			c.send(&message{Type: msgAcquire, ID: uint64(id + 1), Keys: keys})
			m := c.recv()
			require.Equal(t, codeInvalid, m.Code)
			require.EqualValues(t, id+1, m.ID)
		}
		c.send(&message{Type: msgRelease, Keys: []wireKey{{Path: "../x"}, {Path: "nothing"}}})
		c.send(&message{Type: msgCancel, ID: 77})
		c.send(&message{Type: msgPing, ID: 9})
		require.Equal(t, msgPong, c.recv().Type)
	})
	t.Run("a request id twice", func(t *testing.T) {
		acquire(t, good, "held")
		c := dial(t, s.Path).hello("twice")
		for range 2 {
			c.send(&message{Type: msgAcquire, ID: 1, Keys: []wireKey{{Path: "held", Wait: 60000}}})
		}
		c.requireEOF()
		soon(t, func() bool { return s.Stats().Waiters == 0 })
	})
	t.Run("one that does not read", func(t *testing.T) {
		c := dial(t, s.Path).hello("deaf")
		ping, err := appendFrame(nil, &message{Type: msgPing, ID: 1})
		require.NoError(t, err)
		for range maxOut {
			if _, err := c.Write(ping); err != nil {
				break // hung up on, as it should be
			}
		}
		acquire(t, good, "still served").Done()
	})
	acquire(t, good, "f").Done()
}

func TestTooManyConnections(t *testing.T) {
	s := serve(t, socket(t), func(s *Server) { s.MaxConns = 2 })
	join(t, s.Path, "ann")
	b := join(t, s.Path, "bob")
	dial(t, s.Path).requireEOF()
	require.NoError(t, b.Close())
	join(t, s.Path, "cyd")
}

func TestExplicitLocks(t *testing.T) {
	var mu sync.Mutex
	var events []Event
	s := serve(t, socket(t), func(s *Server) {
		s.OnEvent = func(e Event) { mu.Lock(); events = append(events, e); mu.Unlock() }
	})
	has := func(kind EventKind, path string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range events {
				if e.Kind == kind && e.Path == path {
					return true
				}
			}
			return false
		}
	}
	a := join(t, s.Path, "ann")
	ls, err := s.Lock(t.Context(), LockRequest{
		Workspace: ws, Holder: "user:1000", Trees: []string{"docs"}, Mode: Read, Reason: "review", For: time.Hour,
	})
	require.NoError(t, err)
	require.Len(t, ls, 1)
	soon(t, has(EventGranted, "docs"))
	ce := conflict(t, a, "docs/x")
	require.Equal(t, "review", ce.Reason)
	require.Equal(t, Read, ce.Mode)
	soon(t, has(EventConflict, "docs/x"))
	l := s.List(Filter{Workspace: ws})[0]
	require.True(t, l.Tree && l.Explicit)
	require.Equal(t, Read, l.Mode)
	require.False(t, l.Expires.IsZero())

	_, err = s.Unlock(ws, "user:0", "docs")
	require.ErrorIs(t, err, ErrNotHeld)
	_, err = s.Unlock(ws, "user:1000", "docs")
	require.NoError(t, err)
	soon(t, has(EventReleased, "docs"))
	tk := acquire(t, a, "docs/x")

	_, err = s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"docs/x"}})
	require.ErrorAs(t, err, new(*ConflictError))
	_, err = s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"docs/x"}, Wait: 20 * time.Millisecond})
	require.ErrorAs(t, err, new(*ConflictError))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Lock(ctx, LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"docs/x"}, Wait: time.Minute})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, s.Stats().Waiters)
	soon(t, has(EventWaiting, "docs/x"))
	_, err = s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"../x"}})
	require.ErrorIs(t, err, ErrInvalid)

	_, err = s.Break(ws, "docs/x", "user:0", "stuck")
	require.NoError(t, err)
	soon(t, has(EventBroken, "docs/x"))
	soon(t, func() bool { return !tk.Valid() })

	_, err = s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"short"}, For: 20 * time.Millisecond})
	require.NoError(t, err)
	soon(t, func() bool { return len(s.List(Filter{Path: "short"})) == 0 })
}

func TestExclusiveAndRefLocks(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann", holds(HoldClose)), join(t, s.Path, "bob", holds(HoldClose))
	ra := acquire(t, a, RefKey("refs/heads/agent/ann"))
	rb := acquire(t, b, RefKey("refs/heads/agent/bob"))
	lock := LockRequest{Workspace: ws, Holder: "polisd:gc", Paths: []string{Exclusive}}
	_, err := s.Lock(t.Context(), lock)
	require.ErrorAs(t, err, new(*ConflictError))
	lock.Wait = 10 * time.Second
	got := make(chan error, 1)
	go func() {
		_, err := s.Lock(context.Background(), lock)
		got <- err
	}()
	soon(t, func() bool { return s.Stats().Waiters == 1 })
	ra.Done()
	rb.Done()
	require.NoError(t, <-got)
	conflict(t, a, RefKey("refs/heads/agent/ann"))
	acquire(t, a, FileKey(Exclusive)).Done()
}

func TestLockWaitsEndWithTheServer(t *testing.T) {
	s := serve(t, socket(t))
	lock := LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"f"}}
	_, err := s.Lock(t.Context(), lock)
	require.NoError(t, err)
	lock.Holder, lock.Wait = "user:1", time.Minute
	got := make(chan error, 1)
	go func() {
		_, err := s.Lock(context.Background(), lock)
		got <- err
	}()
	soon(t, func() bool { return s.Stats().Waiters == 1 })
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-got, ErrClosed)
	_, err = s.Lock(t.Context(), lock)
	require.ErrorIs(t, err, ErrClosed)
}

func TestGraceHoldsNewLeasesBack(t *testing.T) {
	s := serve(t, socket(t), func(s *Server) { s.Grace = 200 * time.Millisecond })
	start := time.Now()
	a := join(t, s.Path, "ann")
	acquire(t, a, "f")
	require.GreaterOrEqual(t, time.Since(start), 150*time.Millisecond)

	s = serve(t, socket(t), func(s *Server) { s.Grace = time.Hour })
	_, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
	require.True(t, s.Stats().InGrace)
	s.Expect(nil)
	_, err = s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"f"}})
	require.NoError(t, err)
}

// TestGraceDoesNotWaitForAShimThatHasEnded: one that was alive at the start and ends without coming
// back would delay everybody's new leases for StaleTimeout.
func TestGraceDoesNotWaitForAShimThatHasEnded(t *testing.T) {
	var living atomic.Bool
	living.Store(true)
	s := serve(t, socket(t), func(s *Server) {
		s.Grace, s.StaleTimeout = time.Hour, time.Hour
		s.Living = func(_ context.Context, agent string) bool { return agent != "zoe" || living.Load() }
	})
	a := join(t, s.Path, "ann")
	s.Expect([]string{"ann", "zoe"})
	require.True(t, s.Stats().InGrace)
	living.Store(false)
	acquire(t, a, "f")
	require.False(t, s.Stats().InGrace)
}

// TestALeaseIsWaitedForAsLongAsTheServerSays: in a grace period that does not end.
func TestALeaseIsWaitedForAsLongAsTheServerSays(t *testing.T) {
	var ahead atomic.Int64
	s := serve(t, socket(t), func(s *Server) {
		s.Grace, s.GraceWait = 24*time.Hour, time.Hour
		s.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	refused := make(chan error, 1)
	go func() {
		_, err := s.Lock(context.Background(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"f"}})
		refused <- err
	}()
	soon(t, func() bool { return s.Stats().Waiters == 1 })
	later := func(d time.Duration) {
		ahead.Store(int64(d))
		s.do(func(tb *table.Table) { tb.Tick() })
	}
	later(59 * time.Minute)
	require.Equal(t, 1, s.Stats().Waiters)
	later(61 * time.Minute)
	require.ErrorIs(t, <-refused, ErrUnavailable)
	require.True(t, s.Stats().InGrace)
}

func TestSlowEventConsumerBlocksNobody(t *testing.T) {
	block := make(chan struct{})
	s := serve(t, socket(t), func(s *Server) { s.OnEvent = func(Event) { <-block } })
	defer close(block)
	for i := range maxEvents + 100 {
		_, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{fmt.Sprint("f", i)}})
		require.NoError(t, err)
	}
	require.NotZero(t, s.Stats().EventsLost)
}
