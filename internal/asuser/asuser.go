package asuser

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do calls f on a thread with the file system identity of a user, and without supplementary groups. What f opens stays
// open; goroutines that it starts have root's identity. A daemon that is not root calls f as it is.
func Do(uid, gid uint32, f func() error) error {
	if os.Geteuid() != 0 || uid == 0 {
		return f()
	}
	result := make(chan error, 1)
	go func() {
		defer close(result) // also if f ends its goroutine
		// Never unlocked: the thread ends with the goroutine, and nobody else gets its identity.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread represents the process in /proc and cannot end.
			result <- Do(uid, gid, f)
			runtime.UnlockOSThread()
			return
		}
		result <- on(uid, gid, f)
	}()
	err, ok := <-result
	if !ok {
		return fmt.Errorf("act as uid %d: the call did not return", uid)
	}
	return err
}

// on calls f with the identity on the calling thread.
func on(uid, gid uint32, f func() error) error {
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return fmt.Errorf("act as uid %d: setgroups: %w", uid, e)
	}
	set := func(call uintptr, id uint32) bool {
		// It returns the identity before, and no error: a second call shows what was set.
		_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)    //nolint:errcheck // see above
		now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0) //nolint:errcheck // see above
		return uint32(now) == id
	}
	if !set(unix.SYS_SETFSGID, gid) || !set(unix.SYS_SETFSUID, uid) {
		return fmt.Errorf("act as uid %d, gid %d: %w", uid, gid, unix.EPERM)
	}
	return f()
}
