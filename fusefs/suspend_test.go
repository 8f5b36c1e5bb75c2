package fusefs

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChangesWaitWhileTheViewIsSuspended(t *testing.T) {
	fs := &FS{}
	require.Zero(t, fs.awaitResume(t.Context()), "nothing is held back")
	fs.Suspend()
	fs.Suspend()
	done := make(chan syscall.Errno, 2)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- fs.awaitResume(t.Context()) }()
	select {
	case <-done:
		t.Fatal("it did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	require.Equal(t, syscall.EINTR, fs.awaitResume(ctx), "a caller that ends does not wait")
	fs.Resume()
	fs.Resume()
	require.Zero(t, <-done)
	require.Zero(t, fs.awaitResume(t.Context()))
}
