package sandbox

import "strings"

// allowed are the system calls an agent may make: what ordinary programs and
// tool chains use. It is an allowlist, so that a call that a future kernel adds
// is denied until it has been reviewed.
//
// Left out on purpose, beside what needs root anyway:
//
//   - io_uring_*: bypasses this list. A kernel whose administrator disabled it
//     returns EPERM, too, so programs fall back to epoll.
//   - keyctl, add_key, request_key: keyrings are not in any namespace; those of
//     the owner's other sessions would be within reach.
//   - bpf, perf_event_open, userfaultfd, fanotify_init: ways into the kernel, or
//     to stop it in the middle of a copy.
//   - open_by_handle_at: opens by inode number, bypassing directories.
//     name_to_handle_at only queries, and is allowed.
//   - setns, mount and its newer relatives, pivot_root, chroot: see namespaceCalls.
//   - pidfd_getfd, kcmp, process_madvise: reach into other processes, and no
//     debugger needs them.
//   - mbind, move_pages, modify_ldt, iopl, lookup_dcookie, vhangup: rarely used,
//     with a history.
//   - syslog: the host's kernel messages.
var allowed = []string{
	// Files, directories and their attributes. Permissions are checked again, and for the project
	// the view checks.
	`access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
	fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64
	fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64
	fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64 getxattr getxattrat lchown lchown32
	lgetxattr link linkat listxattr listxattrat llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64
	mkdir mkdirat name_to_handle_at newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev
	pwritev2 read readahead readlink readlinkat readv removexattr removexattrat rename renameat renameat2
	rmdir sendfile sendfile64 setxattr setxattrat splice stat stat64 statfs statfs64 statx symlink symlinkat
	sync sync_file_range sync_file_range2 syncfs tee truncate truncate64 umask unlink unlinkat utime utimensat
	utimensat_time64 utimes vmsplice write writev cachestat`,
	// mknod creates FIFOs and sockets; devices need a capability that no process has.
	`mknod mknodat`,
	`inotify_add_watch inotify_init inotify_init1 inotify_rm_watch`,

	// Memory. Executing a program in memory is allowed, as in /tmp.
	`brk madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2
	mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages`,

	// Processes and threads; namespaces are kept out by rules for arguments.
	`arch_prctl capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu
	getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getpgid getpgrp getpid getppid
	getpriority getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid gettid getuid getuid32
	kill landlock_add_rule landlock_create_ruleset landlock_restrict_self pidfd_open pidfd_send_signal prctl
	process_mrelease restart_syscall riscv_hwprobe rseq sched_get_priority_max sched_get_priority_min
	sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
	sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
	seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid
	setgid32 setgroups setgroups32 setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid
	setresuid32 setreuid setreuid32 setsid setuid setuid32 tgkill times tkill ugetrlimit uname vfork wait4
	waitid waitpid ioprio_get ioprio_set sysinfo getrandom`,

	// Signals, time and waiting.
	`adjtimex alarm clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
	clock_nanosleep_time64 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2
	epoll_wait epoll_wait_old eventfd eventfd2 futex futex_requeue futex_time64 futex_wait futex_waitv
	futex_wake getitimer gettimeofday nanosleep _newselect pause poll ppoll ppoll_time64 pselect6
	pselect6_time64 rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
	rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo select setitimer sigaltstack signalfd signalfd4
	sigpending sigprocmask sigreturn sigsuspend time timer_create timer_delete timer_getoverrun timer_gettime
	timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64
	timerfd_settime timerfd_settime64`,

	// Networking and IPC: addresses, IPC and abstract names are in namespaces.
	`accept accept4 bind connect getpeername getsockname getsockopt listen pipe pipe2 recv recvfrom recvmmsg
	recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketpair`,
	`mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64
	mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt
	shmget`,
	// The old asynchronous I/O: databases use it, and every request is checked.
	`io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit`,
}

// debugCalls are for debuggers. The kernel limits them to processes of the same user in the same
// pid namespace; process 1 is not dumpable and so excluded. The debugged process stays filtered.
// They are denied where processes are shared with the host.
const debugCalls = `ptrace process_vm_readv process_vm_writev`

// namespaceCalls are also allowed where user namespaces are: what a process needs to set up a
// namespace in which it is root. The newer mount calls stay out; programs that prefer them fall
// back.
const namespaceCalls = `chroot mount pivot_root setdomainname sethostname setns umount umount2`

// calls are the names that the filter allows whatever their arguments.
func calls(userNamespaces, sharedPIDs bool) []string {
	var out []string
	for _, group := range allowed {
		out = append(out, strings.Fields(group)...)
	}
	if !sharedPIDs {
		out = append(out, strings.Fields(debugCalls)...)
	}
	if userNamespaces {
		out = append(out, strings.Fields(namespaceCalls)...)
	}
	return out
}
