package conn

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestASignalIsNoAnswerOfTheKernel: the Go runtime sends SIGURG to its threads, and poll(2) returns
// EINTR if a signal is pending, even if it is not to wait. A connection that was taken for dead at
// that ended the calls of all interrupted callers that wait.
func TestASignalIsNoAnswerOfTheKernel(t *testing.T) {
	c, _ := mount(t, &testFS{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop := make(chan struct{})
	var sender sync.WaitGroup
	defer sender.Wait()
	defer close(stop)
	pid, tid := os.Getpid(), unix.Gettid()
	sender.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Tgkill(pid, tid, unix.SIGURG) //nolint:errcheck // the thread is there
			}
		}
	})
	alive, probes := 0, 0
	for end := time.Now().Add(500 * time.Millisecond); alive < 200 || probes < 50 || time.Now().Before(end); {
		require.True(t, c.Alive(), "after %d", alive)
		alive++
		if alive%4 == 0 {
			require.NoError(t, c.Probe(), "after %d", probes)
			probes++
		}
	}
}
