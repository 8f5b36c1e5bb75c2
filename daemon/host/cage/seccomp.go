package cage

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are system calls no program in a cage has a use for: ways to other
// machines and processes, into the kernel, and around Landlock (a memfd has no
// path that a rule could forbid).
var refused = []uint32{
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_FANOTIFY_INIT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSPICK,
	unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MEMFD_CREATE, unix.SYS_EXECVEAT, unix.SYS_PERSONALITY,
	unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// Offsets in struct seccomp_data of linux/seccomp.h; the lower half of an
// argument comes first on the little-endian machines this is built for.
const (
	offNr, offArch, offArg0, offArg1 = 0, 4, 16, 24
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// What the C library takes as "use clone", whose flags a filter can read.
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

	namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// filter is the program for the kernel. Without children it refuses every
// process that is not a thread. The one exception is vfork with shared memory:
// so the runtime starts the program itself, and no git does.
func filter(children bool) []unix.SockFilter {
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	ret := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, K: k, Jt: yes, Jf: no}
	}
	prog := []unix.SockFilter{
		load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(offNr),
	}
	if maxNr > 0 { // another way to count the same calls
		prog = append(prog, jump(unix.BPF_JGE, maxNr, 0, 1), ret(enosys))
	}
	for _, nr := range refused {
		prog = append(prog, jump(unix.BPF_JEQ, nr, 0, 1), ret(eperm))
	}
	prog = append(prog, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), ret(enosys))
	if !children {
		for _, nr := range forks {
			prog = append(prog, jump(unix.BPF_JEQ, nr, 0, 1), ret(eperm))
		}
	}
	clone := []unix.SockFilter{load(offArg0), jump(unix.BPF_JSET, namespaces, 0, 1), ret(eperm)}
	if !children {
		clone = append(clone, jump(unix.BPF_JSET, unix.CLONE_THREAD|unix.CLONE_VFORK, 1, 0), ret(eperm))
	}
	clone = append(clone, ret(allow))
	prog = append(prog, jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, uint8(len(clone))))
	prog = append(prog, clone...)
	return append(prog,
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 4),
		load(offArg1), jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0), jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1), ret(eperm),
		ret(allow))
}

// loadFilter puts the calling thread, which has no_new_privs, under a filter.
func loadFilter(prog []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); e != 0 {
		return fmt.Errorf("%w: seccomp: %w", ErrUnavailable, e)
	}
	return nil
}
