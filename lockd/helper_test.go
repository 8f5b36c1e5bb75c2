package lockd

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ws = "/srv/ws"

// TestMain fails the run if a goroutine of a server or client outlives it.
func TestMain(m *testing.M) {
	if path := os.Getenv("LOCKD_TEST_DIAL"); path != "" {
		os.Exit(dialAsStranger(path))
	}
	if path := os.Getenv("LOCKD_TEST_SERVE"); path != "" {
		os.Exit(serveAlone(path))
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(code) // the fuzzing engine leaves goroutines of its own
	}
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "goroutines left behind:")
			if err := pprof.Lookup("goroutine").WriteTo(os.Stderr, 1); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			code = 1
			break
		}
	}
	os.Exit(code)
}

// tb is what testing.TB and rapid.T have in common.
type tb interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// serve starts a server without a grace period that delegates nothing, so
// that every first lease is a round trip; opts may change that.
func serve(t tb, path string, opts ...func(*Server)) *Server {
	t.Helper()
	s := New()
	s.Path, s.PeerUID, s.Grace = path, uint32(os.Getuid()), 0
	s.Delegate = false
	for _, o := range opts {
		o(s)
	}
	require.NoError(t, s.Open())
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func lends(s *Server) { s.Delegate = true }

func socket(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "lockd.sock")
}

// join opens a client that refuses at once, unless opts change that, and waits until it is
// connected.
func join(t tb, path, agent string, opts ...func(*Client)) *Client {
	t.Helper()
	c := enter(t, path, agent, opts...)
	require.Eventually(t, c.connected, 30*time.Second, time.Millisecond)
	return c
}

// enter opens a client without waiting for its connection.
func enter(t tb, path, agent string, opts ...func(*Client)) *Client {
	t.Helper()
	c := NewClient(path, ws, agent)
	c.WaitFor = func(string) time.Duration { return 0 }
	for _, o := range opts {
		o(c)
	}
	require.NoError(t, c.Open())
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func (c *Client) connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// crash ends a client as kill -9 would: no bye, the connection is just gone.
func (c *Client) crash() {
	c.mu.Lock()
	c.closed = true
	l := c.link
	c.mu.Unlock()
	c.cancel()
	if l != nil {
		l.shut(ErrClosed)
	}
	c.group.Wait()
}

// cut breaks the connection; the client is to come back by itself.
func (c *Client) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link.shut(ErrClosed)
	}
}

func waits(d time.Duration) func(*Client) {
	return func(c *Client) { c.WaitFor = func(string) time.Duration { return d } }
}

func holds(h Hold) func(*Client) {
	return func(c *Client) { c.HoldFor = func(string) Hold { return h } }
}

func acquire(t tb, c *Client, paths ...string) *Ticket {
	t.Helper()
	tk, err := c.Acquire(context.Background(), Request{Paths: paths, Op: "open-write", Pid: 42})
	require.NoError(t, err)
	return tk
}

func conflict(t tb, c *Client, paths ...string) *ConflictError {
	t.Helper()
	_, err := c.Acquire(context.Background(), Request{Paths: paths, Op: "open-write"})
	var ce *ConflictError
	require.ErrorAs(t, err, &ce)
	return ce
}

// soon asserts something that another goroutine is about to make true.
func soon(t tb, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 30*time.Second, time.Millisecond)
}

func heldPaths(s *Server, holder string) []string {
	out := []string{}
	for _, l := range s.List(Filter{Holder: holder}) {
		out = append(out, l.Path)
	}
	return out
}
