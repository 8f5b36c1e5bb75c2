package backing

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Identity is the server's own file system identity, which does not change.
type Identity struct{ uid, gid uint32 }

// CurrentIdentity reads the identity of this process.
func CurrentIdentity() Identity {
	return Identity{uid: uint32(unix.Geteuid()), gid: uint32(unix.Getegid())}
}

// MakeAs makes something on the backing file system that belongs to the caller
// from its first moment: another view of a shared directory must not find it
// root's, and the kernel keep that. The kernel has checked the caller's rights
// already; where they rest on a group that is not known here, the server makes
// the object itself and hands it over (SetOwnerMode).
func (i Identity) MakeAs(h *fuse.InHeader, mk func() syscall.Errno) syscall.Errno {
	if h.Uid == 0 && h.Gid == 0 {
		return mk()
	}
	e := i.asUser(h.Uid, h.Gid, mk)
	if e == syscall.EACCES || e == syscall.EPERM {
		return mk()
	}
	return e
}

// asUser calls f with the file system identity of a user, which is the
// thread's own and goes with nothing else (setfsuid(2)).
func (i Identity) asUser(uid, gid uint32, f func() syscall.Errno) syscall.Errno {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer setFS(unix.SYS_SETFSGID, i.gid)
	setFS(unix.SYS_SETFSGID, gid)
	defer setFS(unix.SYS_SETFSUID, i.uid)
	setFS(unix.SYS_SETFSUID, uid)
	return f()
}

// WithGroup calls f with another group for the file system. f must not change its thread.
func (i Identity) WithGroup(gid uint32, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer setFS(unix.SYS_SETFSGID, i.gid)
	setFS(unix.SYS_SETFSGID, gid)
	return f()
}

// setFS cannot distinguish an error from a success. Only a second call shows the
// result, and only the way back, which must not fail, makes one.
func setFS(call uintptr, id uint32) {
	unix.RawSyscall(call, uintptr(id), 0, 0) //nolint:errcheck // returns the old identity, not an error
	if id != 0 {
		return
	}
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); now != 0 {
		// Continuing would do the next request with this one's rights.
		panic(fmt.Sprintf("fusefs: file system identity %d stays on a thread", now))
	}
}
