package sandbox

import (
	"slices"
	"strings"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"
)

// Kind classifies a denied system call by its purpose.
type Kind string

// The kinds of denied calls that are audited.
const (
	KindNamespace Kind = "namespace" // namespaces and mounts, which user namespaces would give
	KindSocket    Kind = "socket"    // sockets that are not allowed
	KindKey       Kind = "key"       // the kernel's keyrings
	KindKernel    Kind = "kernel"    // ways into the kernel
	KindFile      Kind = "file"      // files past their names
	KindMachine   Kind = "machine"   // what is the whole machine's
	KindProcess   Kind = "process"   // other processes
	KindTerminal  Kind = "terminal"  // the shell behind a terminal
)

// audited lists the denied calls that emit an event: closed ways out of the
// sandbox. The supervisor answers them, always with EPERM. The kernel alone denies
// every other call, without an event:
//
//   - mbind, move_pages, set_mempolicy, kcmp, modify_ldt, vhangup: run-times and
//     drivers try them and continue without; they lead nowhere.
//   - io_uring_enter, io_uring_register, fsconfig, the other calls of bpf and perf:
//     they have no use without the one that is audited.
//   - statmount, listmount, lsm_get_self_attr: they only query.
//   - personality, clock_adjtime, chown to another user, and all that the kernel
//     denies by itself: they lead nowhere.
//
// io_uring_setup is audited although libuv calls it at every start of some
// programs, because io_uring bypasses this list. The receiver aggregates what is
// repeated.
var audited = []struct {
	kind  Kind
	names string
}{
	// Where user namespaces are allowed, those are too, or have an older relative that is.
	{KindNamespace, `mount umount2 pivot_root chroot setns sethostname setdomainname fsopen fsmount fspick move_mount
	open_tree mount_setattr`},
	{KindKey, `keyctl add_key request_key`},
	{KindKernel, `bpf perf_event_open userfaultfd fanotify_init io_uring_setup`},
	{KindFile, `open_by_handle_at`},
	{KindMachine, `init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff syslog acct
	quotactl quotactl_fd settimeofday clock_settime iopl ioperm`},
	{KindProcess, `pidfd_getfd process_madvise`},
}

// auditedByArgs lists the calls that are audited for some arguments only.
var auditedByArgs = map[string]Kind{
	"clone": KindNamespace, "unshare": KindNamespace, "socket": KindSocket, "prlimit64": KindProcess, "ioctl": KindTerminal,
}

// kindOf returns the kind of a call.
func kindOf(call string) Kind {
	if k, ok := auditedByArgs[call]; ok {
		return k
	}
	for _, group := range audited {
		if slices.Contains(strings.Fields(group.names), call) {
			return group.kind
		}
	}
	return KindProcess // those of debugCalls
}

// audit adds rules for the audited calls. Each matches only calls that no other rule allows, so
// that the order of the filter does not matter, nor how libseccomp joins two rules for one call:
// a rule without arguments would replace one with arguments. Their number is small: every process
// that is started in the sandbox waits while libcontainer compiles them.
func audit(userNamespaces, sharedPIDs bool) []*configs.Syscall {
	var out []*configs.Syscall
	rule := func(name string, args ...*configs.Arg) {
		out = append(out, &configs.Syscall{Name: name, Action: configs.Notify, Args: args})
	}
	for _, group := range audited {
		if group.kind == KindNamespace && userNamespaces {
			continue
		}
		for _, name := range strings.Fields(group.names) {
			rule(name)
		}
	}
	if sharedPIDs {
		for _, name := range strings.Fields(debugCalls) {
			rule(name)
		}
	}
	if !userNamespaces {
		bits(namespaceFlags, func(b uint64) { rule("clone", arg(0, configs.MaskEqualTo, b, b)) })
		bits(namespaceFlags|unix.CLONE_NEWTIME, func(b uint64) { rule("unshare", arg(0, configs.MaskEqualTo, b, b)) })
	}
	for _, request := range []uint64{unix.TIOCSTI, unix.TIOCLINUX} {
		rule("ioctl", arg(1, configs.MaskEqualTo, low32, request))
	}
	// Process 1's limits; all others are the agent's own processes.
	rule("prlimit64", arg(0, configs.MaskEqualTo, low32, 1), arg(2, configs.NotEqualTo, 0, 0))
	deniedSockets(rule)
	return out
}

// deniedSockets adds rules for the denied sockets: those that differ from every allowed one in
// some bit.
func deniedSockets(rule func(string, ...*configs.Arg)) {
	is := func(index uint, mask, value uint64) *configs.Arg { return arg(index, configs.MaskEqualTo, mask, value) }
	const families = 0x3f // enough bits for all existing families
	// Above AF_NETLINK (16).
	rule("socket", is(0, 0x20, 0x20))
	bits(0x0f, func(b uint64) { rule("socket", is(0, 0x30|b, 0x10|b)) })
	// Below it, without AF_UNSPEC (0), AF_UNIX (1), AF_INET (2) and AF_INET6 (10).
	rule("socket", is(0, families&^0x0b, 0x04)) // 4 to 7, 12 to 15
	rule("socket", is(0, families&^0x01, 0x08)) // 8, 9
	rule("socket", is(0, families&^0x08, 0x03)) // 3, 11
	bits(^uint64(unix.NETLINK_SOCK_DIAG)&0x1f, func(b uint64) { rule("socket", is(0, families, unix.AF_NETLINK), is(2, b, b)) })
	// AF_INET and AF_INET6 differ in one bit. Streams and datagrams are 1 and 2.
	const either = families &^ (unix.AF_INET6 ^ unix.AF_INET)
	rule("socket", is(0, either, unix.AF_INET), is(1, socketType, unix.SOCK_RAW))
	rule("socket", is(0, either, unix.AF_INET), is(1, 0x4, 0x4)) // SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP
	rule("socket", is(0, either, unix.AF_INET), is(1, 0x8, 0x8)) // SOCK_PACKET
	rule("socket", is(0, either, unix.AF_INET), is(1, socketType, unix.SOCK_STREAM), is(2, low32, unix.IPPROTO_SCTP))
	for _, protocol := range []uint64{unix.IPPROTO_L2TP, unix.IPPROTO_UDPLITE} {
		rule("socket", is(0, either, unix.AF_INET), is(1, socketType, unix.SOCK_DGRAM), is(2, low32, protocol))
	}
}

// bits calls each with the bits of a mask.
func bits(mask uint64, each func(uint64)) {
	for ; mask != 0; mask &= mask - 1 {
		each(mask & -mask)
	}
}
