package sandbox

import (
	"strings"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"
)

// allowed are the system calls an agent may make: what ordinary programs and
// tool chains use. It is a list of what may, not of what may not, so that a
// call a future kernel adds is refused until somebody thought about it.
//
// Left out on purpose, beside what needs root anyway: ptrace and process_vm_*
// (reading other processes), io_uring_* (does I/O past this list),
// userfaultfd, perf_event_open and bpf (kernel attack surface), keyctl,
// add_key and request_key (keyrings are not in a namespace),
// open_by_handle_at (walks out of a mount), the new mount calls, setns.
const allowed = `
accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chmod chown
clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64
close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit
exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown
fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait
futex_waitv futex_wake futimesat getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32
getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority
getrandom getresgid getresgid32 getresuid getresuid32 getrlimit get_robust_list getrusage getsid
getsockname getsockopt get_thread_area gettid gettimeofday getuid getuid32 getxattr getxattrat
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
io_pgetevents io_pgetevents_time64 ioprio_get ioprio_set io_setup io_submit kill landlock_add_rule
landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listxattr
listxattrat llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 madvise map_shadow_stack membarrier
memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64
mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at
nanosleep newfstatat _newselect open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2
pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64
process_mrelease pselect6 pselect6_time64 pwrite64 pwritev pwritev2 read readahead readlink readlinkat
readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename
renameat renameat2 restart_syscall riscv_hwprobe rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo
sched_getaffinity sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min
sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr
sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop
semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto setfsgid setfsgid32 setfsuid
setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid setregid32
setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit set_robust_list setsid
setsockopt set_thread_area set_tid_address setuid setuid32 setxattr setxattrat shmat shmctl shmdt shmget
shutdown sigaltstack signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend socketpair splice stat
stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee
tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime
timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times
tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat utime utimensat
utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev
`

// namespaceFlags are the flags of clone and unshare that make a namespace.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// low32 masks what the kernel looks at in an int argument: a comparison of all
// 64 bits could be dodged with rubbish in the upper half.
const low32 = 0xffffffff

func arg(index uint, op configs.Operator, value, two uint64) []*configs.Arg {
	return []*configs.Arg{{Index: index, Value: value, ValueTwo: two, Op: op}}
}

// profile is the seccomp filter: EPERM for what is not allowed. Calls newer
// than the installed libseccomp get ENOSYS, so that programs fall back.
// Programs of another word size (32 bit on a 64 bit kernel) do not run.
func profile() *configs.Seccomp {
	eperm, enosys := uint(unix.EPERM), uint(unix.ENOSYS)
	p := &configs.Seccomp{DefaultAction: configs.Errno, DefaultErrnoRet: &eperm}
	allow := func(name string, args []*configs.Arg) {
		p.Syscalls = append(p.Syscalls, &configs.Syscall{Name: name, Action: configs.Allow, Args: args})
	}
	for _, name := range strings.Fields(allowed) {
		allow(name, nil)
	}
	// The flags of clone3 are behind a pointer. C libraries fall back to clone.
	p.Syscalls = append(p.Syscalls, &configs.Syscall{Name: "clone3", Action: configs.Errno, ErrnoRet: &enosys})
	allow("clone", arg(0, configs.MaskEqualTo, namespaceFlags, 0))
	allow("unshare", arg(0, configs.MaskEqualTo, namespaceFlags|unix.CLONE_NEWTIME, 0))

	// Linux, Linux32, and both with the flag glibc's setarch sets; and asking.
	for _, persona := range []uint64{0x0, 0x8, 0x20000, 0x20008, low32} {
		allow("personality", arg(0, configs.EqualTo, persona, 0))
	}
	// ADDR_NO_RANDOMIZE is wanted by builds that must be reproducible.
	allow("personality", arg(0, configs.EqualTo, 0x40000, 0))

	// The socket families ordinary programs use. AF_VSOCK would leave the network
	// namespace (it talks to the hypervisor), AF_ALG opens the kernel's crypto
	// drivers, and the exotic ones have a history.
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		allow("socket", arg(0, configs.EqualTo, family, 0))
	}

	// Pushing characters into a terminal's input, TIOCSTI and TIOCLINUX, is how
	// a process reaches the shell behind it. Allowed is every other request: a
	// rule for each bit in which a request can differ from both.
	ioctls(allow)
	return p
}

// ioctls allows ioctl with every request but TIOCSTI (0x5412) and TIOCLINUX
// (0x541c). A filter of allowed calls has no "not one of these", so it is said
// bit by bit: a request is neither of the two if it differs from what they
// share in some bit, or is another one of the eight
// that agree with them in all shared bits.
func ioctls(allow func(string, []*configs.Arg)) {
	const sti, linux = uint64(unix.TIOCSTI), uint64(unix.TIOCLINUX)
	differ := sti ^ linux
	for bit := range 32 {
		b := uint64(1) << bit
		if differ&b == 0 {
			allow("ioctl", arg(1, configs.MaskEqualTo, b, ^sti&b))
		}
	}
	// All combinations of the bits in which the two differ, on top of what they share.
	for sub := differ; ; sub = (sub - 1) & differ {
		if v := sti&^differ | sub; v != sti && v != linux {
			allow("ioctl", arg(1, configs.MaskEqualTo, low32, v))
		}
		if sub == 0 {
			return
		}
	}
}
