package rawconn

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// awaited calls AwaitReader and returns a channel that is closed when it returns.
func awaited(ctx context.Context, c *Conn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.AwaitReader(ctx)
	}()
	return done
}

func soon(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("AwaitReader does not return")
	}
}

func TestTheReaderIsAwaitedUntilItHasNothingLeft(t *testing.T) {
	here, there := pair(t)
	c := here.(*Conn)
	_, err := there.Write([]byte("ab"))
	require.NoError(t, err)

	done := awaited(t.Context(), c)
	read := make(chan string)
	go func() {
		defer close(read)
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			read <- string(b)
		}
	}()
	require.Equal(t, "a", <-read)
	select {
	case <-done:
		t.Fatal("there is another byte")
	case <-time.After(50 * time.Millisecond):
	}
	require.Equal(t, "b", <-read)
	soon(t, done)
	soon(t, awaited(t.Context(), c)) // it still waits

	require.NoError(t, c.Close())
	for range read { // until it ends
		t.Fatal("nothing was sent")
	}
	soon(t, awaited(t.Context(), c))
}

func TestTheWaitForAReaderEndsWithItsContextOrItsConnection(t *testing.T) {
	here, _ := pair(t)
	c := here.(*Conn)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := awaited(ctx, c), awaited(t.Context(), c)
	cancel()
	soon(t, first)
	select {
	case <-second:
		t.Fatal("nobody reads")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, c.Close())
	soon(t, second)
}
