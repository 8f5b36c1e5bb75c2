package sandbox

import (
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"
)

// namespaceFlags are the flags of clone and unshare that make a namespace.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// low32 masks the bits that the kernel reads of an int argument: random upper bits would evade a
// comparison of all 64.
const low32 = 0xffffffff

func arg(index uint, op configs.Operator, value, two uint64) *configs.Arg {
	return &configs.Arg{Index: index, Value: value, ValueTwo: two, Op: op}
}

// profile is the seccomp filter: EPERM for calls that are not allowed. Calls newer than the
// installed libseccomp get ENOSYS, so that programs fall back. Programs of another word size (32
// bit on a 64 bit kernel) do not run. With a listener, the path of a socket, the supervisor
// behind it answers the audited calls.
func profile(userNamespaces, sharedPIDs bool, listener string) *configs.Seccomp {
	eperm, enosys := uint(unix.EPERM), uint(unix.ENOSYS)
	p := &configs.Seccomp{DefaultAction: configs.Errno, DefaultErrnoRet: &eperm}
	allow := func(name string, args ...*configs.Arg) {
		p.Syscalls = append(p.Syscalls, &configs.Syscall{Name: name, Action: configs.Allow, Args: args})
	}
	for _, name := range calls(userNamespaces, sharedPIDs) {
		allow(name)
	}
	// The flags of clone3 are behind a pointer. C libraries fall back to clone.
	p.Syscalls = append(p.Syscalls, &configs.Syscall{Name: "clone3", Action: configs.Errno, ErrnoRet: &enosys})
	if userNamespaces {
		allow("clone")
		allow("unshare")
	} else {
		allow("clone", arg(0, configs.MaskEqualTo, namespaceFlags, 0))
		allow("unshare", arg(0, configs.MaskEqualTo, namespaceFlags|unix.CLONE_NEWTIME, 0))
	}

	// Linux, Linux32, and both with the flag that glibc's setarch sets; and the query.
	for _, persona := range []uint64{0x0, 0x8, 0x20000, 0x20008, low32} {
		allow("personality", arg(0, configs.EqualTo, persona, 0))
	}
	// Reproducible builds need ADDR_NO_RANDOMIZE.
	allow("personality", arg(0, configs.EqualTo, 0x40000, 0))

	sockets(allow)
	p.Syscalls = append(p.Syscalls, limits()...)

	// Inserting characters into a terminal's input, TIOCSTI and TIOCLINUX, is how a process
	// reaches the shell behind it. Every other request is allowed: a rule for each bit in which a
	// request can differ from both.
	ioctls(allow)
	if listener != "" {
		p.ListenerPath = listener
		// First: libseccomp drops a rule that compares more arguments than an earlier one for the
		// same call (prlimit64).
		p.Syscalls = append(audit(userNamespaces, sharedPIDs), p.Syscalls...)
	}
	return p
}

// ioctls allows ioctl with every request but TIOCSTI (0x5412) and TIOCLINUX (0x541c). A filter of
// allowed calls has no "not one of these", so there is a rule per bit: a request is neither of
// the two if it differs from their common bits in some bit, or is another one of the eight that
// agree with them in all common bits.
func ioctls(allow func(string, ...*configs.Arg)) {
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

// socketType are the bits of a socket's type proper; the others are SOCK_NONBLOCK and
// SOCK_CLOEXEC.
const socketType = 0xf

// sockets allows the sockets ordinary programs use. AF_VSOCK would leave the
// network namespace (it talks to the hypervisor), AF_ALG opens the kernel's
// crypto drivers, packet and raw sockets read and forge what others send, and
// the exotic families and protocols (SCTP, L2TP, DCCP ...) are modules the kernel
// would load on demand, with a history.
func sockets(allow func(string, ...*configs.Arg)) {
	allow("socket", arg(0, configs.EqualTo, unix.AF_UNIX, 0))
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, s := range []struct{ kind, protocol uint64 }{
			{unix.SOCK_STREAM, 0}, {unix.SOCK_STREAM, unix.IPPROTO_TCP}, {unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			{unix.SOCK_DGRAM, 0}, {unix.SOCK_DGRAM, unix.IPPROTO_UDP},
			{unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, {unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, // ping
		} {
			allow("socket", arg(0, configs.EqualTo, family, 0), arg(1, configs.MaskEqualTo, socketType, s.kind),
				arg(2, configs.EqualTo, s.protocol, 0))
		}
	}
	// Addresses and routes (C libraries query them), and the list of sockets. The kernel lets no
	// process without capabilities change them. Not the rest: nftables, audit and generic netlink
	// are much of the kernel, and device events are the host's.
	for _, protocol := range []uint64{unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG} {
		allow("socket", arg(0, configs.EqualTo, unix.AF_NETLINK, 0), arg(2, configs.EqualTo, protocol, 0))
	}
}

// limits are the rules for a process's own limits. Queries are allowed, and setting one's own,
// which can only lower them. Process 1 has the same user, so lowering its limits could kill it: a
// process number other than 0 is denied. The limit of core files stays at what rlimits has, but
// setting it returns success: gpg and ssh-agent exit if they cannot disable cores.
func limits() []*configs.Syscall {
	var out []*configs.Syscall
	rule := func(name string, action configs.Action, args ...*configs.Arg) {
		s := &configs.Syscall{Name: name, Action: action, Args: args}
		if action == configs.Errno {
			s.ErrnoRet = new(uint) // none: the call does nothing and succeeds
		}
		out = append(out, s)
	}
	// All sixteen limits but RLIMIT_CORE (4): first number, and how many of its last bits are
	// arbitrary. A rule for each limit would cost every process that is started.
	for _, r := range []struct{ first, open uint64 }{{0, 0x3}, {unix.RLIMIT_CORE, 0}, {5, 0}, {6, 0x1}, {8, 0x7}} {
		which := func(index uint) *configs.Arg { return arg(index, configs.MaskEqualTo, low32&^r.open, r.first) }
		own, change := arg(0, configs.MaskEqualTo, low32, 0), arg(2, configs.NotEqualTo, 0, 0)
		action := configs.Allow
		if r.first == unix.RLIMIT_CORE {
			action = configs.Errno
		}
		rule("setrlimit", action, which(0))
		rule("prlimit64", action, own, which(1), change)
	}
	rule("prlimit64", configs.Allow, arg(2, configs.EqualTo, 0, 0))
	return out
}
