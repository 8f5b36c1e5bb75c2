package fusefs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	swarmDirs    = 8
	swarmThreads = 24
	swarmCalls   = 20
)

// Operations of all kinds wait, for short and random times, while their callers are interrupted and
// killed at random: every call of a caller that lives returns, with its own result, and nothing is
// left.
func TestWaitsEndInAnyOrder(t *testing.T) {
	for name, noRing := range map[string]bool{"device": true, "rings": false} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t, func(c *Config) { c.NoRing = noRing })
			for i := range swarmDirs {
				require.NoError(t, os.Mkdir(v.raw(fmt.Sprint(i)), 0o755))
				write(t, v.raw(fmt.Sprint(i), "file"), "text")
			}
			v.g.set(func() {
				v.g.write = func(ctx context.Context, _ Caller, _ Op, _ []Target) syscall.Errno {
					if rand.IntN(3) == 0 {
						return 0
					}
					ended := false
					e := Wait(ctx, func() {
						select {
						case <-time.After(time.Duration(rand.IntN(8000)) * time.Microsecond):
						case <-ctx.Done():
							ended = true
						}
					})
					if e == 0 && ended {
						return syscall.EINTR
					}
					return e
				}
			})
			var callers sync.WaitGroup
			for i := range 6 {
				callers.Go(func() {
					killed := i%3 == 0
					c := helper(t, "swarm", v.mnt)
					c.Dir = "/"
					if !notError(t, c.Start()) {
						return
					}
					ended := make(chan error, 1)
					go func() { ended <- c.Wait() }()
					for n := 0; ; n++ {
						select {
						case err := <-ended:
							if !killed {
								notError(t, err)
							}
							return
						case <-time.After(time.Duration(rand.IntN(4000)) * time.Microsecond):
						}
						sig := syscall.SIGURG
						if killed && n == 50 {
							sig = syscall.SIGKILL
						}
						_ = c.Process.Signal(sig) // it may have ended
					}
				})
			}
			callers.Wait()
			require.Eventually(t, func() bool { return v.fs.Deferred() == 0 && v.g.tickets() == 0 }, 60*time.Second, 5*time.Millisecond)
			require.Equal(t, "text", content(t, v.in("0", "file")))
		})
	}
}

func notError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// swarm changes the files below a directory with many threads.
func swarm(mnt string) error {
	signal.Notify(make(chan os.Signal, 9), syscall.SIGURG)
	errs := make(chan error, swarmThreads)
	for i := range swarmThreads {
		go func() {
			var err error
			for n := range swarmCalls {
				err = errors.Join(err, swarmCall(filepath.Join(mnt, fmt.Sprint(rand.IntN(swarmDirs))), fmt.Sprintf("%d-%d-%d", os.Getpid(), i, n)))
			}
			errs <- err
		}()
	}
	var err error
	for range swarmThreads {
		err = errors.Join(err, <-errs)
	}
	return err
}

// swarmCall makes, opens, renames and removes a file of its own, or opens the shared one.
func swarmCall(dir, name string) error {
	openClose := func(path string, flags int) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	if rand.IntN(2) == 0 {
		return openClose(filepath.Join(dir, "file"), unix.O_RDWR)
	}
	path := filepath.Join(dir, name)
	if err := openClose(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := openClose(path, unix.O_WRONLY|unix.O_TRUNC); err != nil {
		return fmt.Errorf("open what was made: %w", err)
	}
	if err := unix.Rename(path, path+"+"); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return unix.Unlink(path + "+")
}
