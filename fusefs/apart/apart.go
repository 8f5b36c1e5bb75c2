package apart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread that has no descriptor but those that f opens, 0, 1, 2, and Go's own. Descriptors that f
// opens must be closed by f and are known to no other goroutine: f must not start one that uses them, and must
// name them below /proc/thread-self. Do returns an error without a call of f if there is no such thread. When ctx
// ends first it returns its cause, and f continues.
func Do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go run(f, done)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run calls f on a thread that ends with this goroutine.
func run(f func() error, done chan<- error) {
	runtime.LockOSThread() // and never unlocked
	if unix.Gettid() == unix.Getpid() {
		// The main thread does not end, and what it has is below /proc/self. It is kept from the next goroutine.
		defer runtime.UnlockOSThread()
		other := make(chan error, 1)
		go run(f, other)
		done <- <-other
		return
	}
	if err := separate(); err != nil {
		done <- fmt.Errorf("separate a thread's descriptors: %w", err)
		return
	}
	done <- f()
}

const table = "/proc/thread-self/fd"

// separate gives this thread a table of descriptors of its own. Go's runtime wakes its poller from any thread,
// so that the poller must exist before, and its descriptors stay.
func separate() error {
	if err := startPoller(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// From here to the end only system calls: an os.File would be the poller's.
	dir, err := unix.Open(table, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: table, Err: err}
	}
	var names []string
	for buf := make([]byte, 8192); ; {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil {
			unix.Close(dir)
			return &os.PathError{Op: "readdirent", Path: table, Err: err}
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	unix.Close(dir)
	poller := false
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 || fd == dir {
			continue
		}
		what := make([]byte, 64)
		n, err := unix.Readlink(table+"/"+name, what)
		if err != nil {
			return &os.PathError{Op: "readlink", Path: table + "/" + name, Err: err}
		}
		switch string(what[:n]) {
		case "anon_inode:[eventpoll]":
			poller = true
		case "anon_inode:[eventfd]":
		default:
			unix.Close(fd)
		}
	}
	if !poller {
		return errors.New("the poller of Go's runtime is not found")
	}
	return nil
}

// startPoller makes the poller of Go's runtime, if this is the first file that could need it.
func startPoller() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	return errors.Join(r.Close(), w.Close())
}
