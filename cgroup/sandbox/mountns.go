package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// InMounts calls fn on a thread whose mount namespace, root and working directory are those of the sandbox, as root
// of the host, and returns its error. The thread ends then: it is never used by another goroutine. fn must only make
// system calls that do not wait: paths of the host, such as /proc and /dev, are not there. After the sandbox has ended,
// the error is [ErrGone].
func (s *Sandbox) InMounts(fn func() error) error {
	ns, err := os.Open(filepath.Join("/proc", strconv.Itoa(s.initPid), "ns", "mnt"))
	if err != nil {
		return fmt.Errorf("enter the mounts of the sandbox: %w: %w", ErrGone, err)
	}
	defer ns.Close() //nolint:errcheck // read-only descriptor
	select {
	case <-s.initDone: // the number can be another process's
		return fmt.Errorf("enter the mounts of the sandbox: %w", ErrGone)
	default:
	}
	res := make(chan error, 1)
	go onOwnThread(func() {
		res <- func() error {
			// A thread that shares its root and working directory with others cannot enter (setns(2)).
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("enter the mounts of the sandbox: unshare: %w", err)
			}
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("enter the mounts of the sandbox: setns: %w", err)
			}
			return fn()
		}()
	})
	return <-res
}

// onOwnThread calls fn on a thread that ends with the goroutine. It is not the main thread, which cannot end, and
// which stands for the process in /proc.
func onOwnThread(fn func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		fn()
		return
	}
	done := make(chan struct{})
	go func() { // on another thread: this one is held
		defer close(done)
		onOwnThread(fn)
	}()
	<-done
	runtime.UnlockOSThread()
}
