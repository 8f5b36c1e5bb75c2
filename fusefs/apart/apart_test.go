package apart_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
)

func TestAThreadOfItsOwnHasNoDescriptorOfTheProcess(t *testing.T) {
	f, err := os.Open("/")
	require.NoError(t, err)
	defer f.Close()
	left := -1
	err = apart.Do(t.Context(), func() error {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("a descriptor of the process: %w", err)
		}
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		left = fd
		var st unix.Stat_t
		return unix.Stat(fmt.Sprintf("/proc/thread-self/fd/%d", fd), &st)
	})
	require.NoError(t, err)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", left))
	require.False(t, err == nil && name == "/dev/null", "the process has no descriptor of the thread")
	require.ErrorIs(t, apart.Do(t.Context(), func() error { return os.ErrInvalid }), os.ErrInvalid)
	_, err = f.Stat()
	require.NoError(t, err, "the process keeps what it has")
}

// The runtime continues while such threads come and go: its timers and its poller wake up, and the main thread keeps
// the table that /proc/self shows.
func TestThreadsOfTheirOwnBesideTimersAndPipes(t *testing.T) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := apart.Do(context.WithoutCancel(ctx), func() error {
					for range 20 {
						time.AfterFunc(time.Microsecond, func() {})
						runtime.Gosched()
						var st unix.Stat_t
						if err := unix.Stat("/", &st); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				r, w, err := os.Pipe()
				if err != nil {
					t.Error(err)
					return
				}
				go func() { time.Sleep(10 * time.Microsecond); _, _ = w.Write([]byte("x")) }()
				if _, err := r.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
				_, err = os.Stat(fmt.Sprintf("/proc/self/fd/%d", r.Fd()))
				if err != nil {
					t.Error("the table of the process: ", err)
				}
				r.Close()
				w.Close()
			}
		})
	}
	wg.Wait()
}

// A function that hangs does not hang its caller.
func TestACallerDoesNotWaitForLongerThanItWants(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	require.ErrorIs(t, apart.Do(ctx, func() error { <-over; return nil }), context.DeadlineExceeded)
}

func BenchmarkDo(b *testing.B) {
	for b.Loop() {
		if err := apart.Do(b.Context(), func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
