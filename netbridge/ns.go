package netbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// NS is a network namespace seen from a process that lives in another one.
//
// One OS thread enters the namespace and never comes back: it is locked to its
// goroutine and ends with it, so no other goroutine can ever be scheduled onto
// it. The thread only creates sockets, which keep their namespace for life;
// waiting on them happens elsewhere.
type NS struct {
	path string
	work chan func()
	quit chan struct{}
	done chan struct{} // closed after the thread has done its last work
	once sync.Once

	sockpool sockpool
	diag     diagSocket
	owners   diagSocket
}

// OpenNS enters the namespace behind an nsfs file, such as [Endpoint].NetNS.
// The caller's own namespace is refused with ErrNotNetNS: a mistake there would
// put an agent's sockets on the host.
func OpenNS(path string) (*NS, error) {
	f, err := openNetNS(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	defer f.Close() //nolint:errcheck // read-only descriptor
	n, err := startNS(path, func() error {
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns %s: %w", path, err)
		}
		return nil
	})
	runtime.KeepAlive(f)
	return n, err
}

// startNS starts the thread; enter puts it into the namespace.
func startNS(path string, enter func() error) (*NS, error) {
	n := &NS{path: path, work: make(chan func()), quit: make(chan struct{}), done: make(chan struct{}), sockpool: newSockpool()}
	ready := make(chan error, 1)
	go n.run(enter, ready, nil)
	if err := <-ready; err != nil {
		<-n.done
		return nil, err
	}
	return n, nil
}

// run never unlocks its thread, so the runtime ends the thread with the
// goroutine. locked is closed as soon as the goroutine has its thread.
func (n *NS) run(enter func() error, ready chan<- error, locked chan<- struct{}) {
	runtime.LockOSThread()
	if locked != nil {
		close(locked)
	}
	if unix.Gettid() == unix.Getpid() {
		// The main thread's namespace is what /proc/PID/ns/net shows for the
		// whole process, and it cannot end: hold it while another takes over.
		got := make(chan struct{})
		go n.run(enter, ready, got)
		<-got
		runtime.UnlockOSThread()
		return
	}
	defer close(n.done)
	err := enter()
	ready <- err
	if err != nil {
		return
	}
	for {
		select {
		case fn := <-n.work:
			fn()
		case family := <-n.sockpool.low:
			n.sockpool.fill(family)
		case <-n.quit:
			return
		}
	}
}

// Path is the file the namespace was opened from.
func (n *NS) Path() string { return n.path }

// Do runs fn on the thread that lives in the namespace. fn must not block for
// long, and what it starts (goroutines) does not live there. Cancelling ctx
// ends the wait for the thread, not fn itself once it runs.
func (n *NS) Do(ctx context.Context, fn func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	res := make(chan error, 1)
	select {
	case n.work <- func() { res <- fn() }:
		return <-res
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.quit:
		return fmt.Errorf("network namespace %s: %w", n.path, ErrClosed)
	}
}

// Close ends the thread and waits for it. Sockets made before live on.
func (n *NS) Close() error {
	n.once.Do(func() { close(n.quit) })
	<-n.done
	n.sockpool.empty()
	return errors.Join(n.diag.close(), n.owners.close())
}

// openNetNS opens path and checks that it is a network namespace other than our own.
func openNetNS(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := checkNetNS(fd, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkNetNS(fd int, path string) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		return fmt.Errorf("%s: %w", path, ErrNotNetNS)
	}
	// NS_GET_NSTYPE, ioctl_ns(2): returns the CLONE_NEW* value.
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	if err != nil {
		return fmt.Errorf("type of namespace %s: %w", path, err)
	}
	var it, own unix.Stat_t
	if err := unix.Fstat(fd, &it); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if err := unix.Stat("/proc/self/ns/net", &own); err != nil {
		return fmt.Errorf("stat own network namespace: %w", err)
	}
	if kind != unix.CLONE_NEWNET || (it.Ino == own.Ino && it.Dev == own.Dev) {
		return fmt.Errorf("%s: %w", path, ErrNotNetNS)
	}
	return nil
}
