package lockd

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveAlone is a server in a process of its own, until its input ends.
func serveAlone(path string) int {
	s := New()
	s.Path, s.PeerUID, s.Grace, s.StaleTimeout = path, uint32(os.Getuid()), 0, time.Second
	if err := s.Open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	if err := s.Close(); err != nil {
		return 1
	}
	return 0
}

// TestAServerStoppedForLongerThanTheStaleTimeout: its clients cannot know whether it lives,
// and so write under none of their leases; when it continues, they do as well.
func TestAServerStoppedForLongerThanTheStaleTimeout(t *testing.T) {
	path := socket(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "LOCKD_TEST_SERVE="+path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		defer cancel()
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	require.NoError(t, err)
	lost := make(chan string, 1)
	ann := enter(t, path, "ann", func(c *Client) {
		c.Bound, c.Heartbeat = 300*time.Millisecond, 100*time.Millisecond
		c.OnLost = func(_ []string, why string) { lost <- why }
	})
	bob := enter(t, path, "bob", waits(time.Minute), holds(HoldClose))
	soon(t, ann.connected)
	soon(t, bob.connected)
	tk := acquire(t, ann, "f")
	waited := make(chan error, 1)
	go func() {
		tk, err := bob.Acquire(t.Context(), Request{Paths: []string{"f"}})
		if err == nil {
			tk.Done()
		}
		waited <- err
	}()

	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.Equal(t, "stale", <-lost)
	require.False(t, tk.Valid())
	_, err = ann.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	soon(t, ann.connected)
	require.NoError(t, <-waited, "the waiter is served by the server that continues")
	tk.Done()
	soon(t, func() bool {
		tk, err := ann.Acquire(t.Context(), Request{Paths: []string{"f"}})
		return err == nil && tk.Valid()
	})
	require.NoError(t, ann.Close())
	require.NoError(t, bob.Close())
}
