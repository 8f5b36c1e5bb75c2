package unotify

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call that a filter refers to the supervisor.
type Call struct {
	ID     uint64 // the kernel's id of the notification
	Thread int    // the calling thread, in the pid namespace of the caller of Run
	Arch   uint32 // AUDIT_ARCH_*
	Nr     int
	Args   [6]uint64 // registers; a pointer must not be followed
}

// notif is struct seccomp_notif of linux/seccomp.h.
type notif struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

// sizes is struct seccomp_notif_sizes.
type sizes struct{ notif, answer, data uint16 }

// ErrKernel: the kernel has no seccomp listeners, or other structures than this package knows.
var ErrKernel = errors.New("the kernel has no such listener")

// supported queries the kernel for the sizes of its structures.
func supported() error {
	var s sizes
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&s))); e != 0 {
		return fmt.Errorf("%w: seccomp: %w", ErrKernel, e)
	}
	if want := (sizes{uint16(unsafe.Sizeof(notif{})), uint16(unsafe.Sizeof(answer{})), 64}); s != want {
		return fmt.Errorf("%w: sizes %v, not %v", ErrKernel, s, want)
	}
	return nil
}

// receive takes the next notification of a readable listener: it would block on another one.
// ENOENT: the notification was withdrawn meanwhile.
func receive(fd int) (Call, error) {
	var n notif // the kernel wants it to be zero
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); e != 0 {
		return Call{}, e
	}
	return Call{ID: n.id, Thread: int(n.pid), Arch: n.arch, Nr: int(n.nr), Args: n.args}, nil
}

// refuse answers a notification with EPERM, without flags: a call never continues.
func refuse(fd int, id uint64) error {
	a := answer{id: id, error: -int32(unix.EPERM)}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a))); e != 0 {
		return e
	}
	return nil
}
