package sandbox

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// flag is a bit of an argument, or one of its values.
type flag struct {
	value uint64
	name  string
}

var (
	namespaceNames = []flag{
		{unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"}, {unix.CLONE_NEWUTS, "CLONE_NEWUTS"},
		{unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, {unix.CLONE_NEWPID, "CLONE_NEWPID"},
		{unix.CLONE_NEWNET, "CLONE_NEWNET"}, {unix.CLONE_NEWTIME, "CLONE_NEWTIME"},
	}
	mountNames = []flag{
		{unix.MS_BIND, "MS_BIND"}, {unix.MS_REMOUNT, "MS_REMOUNT"}, {unix.MS_MOVE, "MS_MOVE"}, {unix.MS_REC, "MS_REC"},
		{unix.MS_SHARED, "MS_SHARED"}, {unix.MS_SLAVE, "MS_SLAVE"}, {unix.MS_PRIVATE, "MS_PRIVATE"}, {unix.MS_UNBINDABLE, "MS_UNBINDABLE"},
	}
	familyNames = []flag{
		{unix.AF_INET, "AF_INET"}, {unix.AF_INET6, "AF_INET6"}, {unix.AF_NETLINK, "AF_NETLINK"}, {unix.AF_PACKET, "AF_PACKET"},
		{unix.AF_VSOCK, "AF_VSOCK"}, {unix.AF_ALG, "AF_ALG"}, {unix.AF_BLUETOOTH, "AF_BLUETOOTH"}, {unix.AF_CAN, "AF_CAN"},
		{unix.AF_TIPC, "AF_TIPC"}, {unix.AF_RDS, "AF_RDS"}, {unix.AF_KEY, "AF_KEY"}, {unix.AF_XDP, "AF_XDP"}, {unix.AF_KCM, "AF_KCM"},
		{unix.AF_PPPOX, "AF_PPPOX"}, {unix.AF_SMC, "AF_SMC"},
	}
	typeNames = []flag{
		{unix.SOCK_STREAM, "SOCK_STREAM"}, {unix.SOCK_DGRAM, "SOCK_DGRAM"}, {unix.SOCK_RAW, "SOCK_RAW"}, {unix.SOCK_RDM, "SOCK_RDM"},
		{unix.SOCK_SEQPACKET, "SOCK_SEQPACKET"}, {unix.SOCK_DCCP, "SOCK_DCCP"}, {unix.SOCK_PACKET, "SOCK_PACKET"},
	}
	netlinkNames = []flag{
		{unix.NETLINK_AUDIT, "NETLINK_AUDIT"}, {unix.NETLINK_NETFILTER, "NETLINK_NETFILTER"}, {unix.NETLINK_GENERIC, "NETLINK_GENERIC"},
		{unix.NETLINK_KOBJECT_UEVENT, "NETLINK_KOBJECT_UEVENT"}, {unix.NETLINK_XFRM, "NETLINK_XFRM"}, {unix.NETLINK_CRYPTO, "NETLINK_CRYPTO"},
	}
	terminalNames = []flag{{unix.TIOCSTI, "TIOCSTI"}, {unix.TIOCLINUX, "TIOCLINUX"}}
)

// describe returns the purpose of a denied call, as far as its registers show it. The
// process chose their values: every value gives some short text.
func describe(call string, args [6]uint64) string {
	switch call {
	case "clone", "unshare":
		return flags(args[0], namespaceNames)
	case "setns":
		return flags(args[1], namespaceNames)
	case "mount":
		return flags(args[3], mountNames)
	case "socket":
		return socketWanted(args)
	case "ioctl":
		return value(args[1], terminalNames)
	case "prlimit64":
		return fmt.Sprintf("process %d, limit %d", int32(args[0]), uint32(args[1]))
	case "ptrace":
		return fmt.Sprintf("process %d, request %#x", int32(args[1]), uint32(args[0]))
	case "process_vm_readv", "process_vm_writev":
		return fmt.Sprintf("process %d", int32(args[0]))
	case "bpf", "keyctl", "syslog", "quotactl":
		return fmt.Sprintf("command %#x", uint32(args[0]))
	case "reboot":
		return fmt.Sprintf("command %#x", uint32(args[2]))
	case "perf_event_open":
		return fmt.Sprintf("process %d, processor %d", int32(args[1]), int32(args[2]))
	}
	return ""
}

func socketWanted(args [6]uint64) string {
	family, kind, protocol := args[0]&low32, args[1]&socketType, args[2]&low32
	text := value(family, familyNames) + ", " + value(kind, typeNames)
	switch {
	case family == unix.AF_NETLINK:
		return text + ", " + value(protocol, netlinkNames)
	case protocol != 0:
		return fmt.Sprintf("%s, protocol %d", text, protocol)
	}
	return text
}

// flags names the bits that are set, "" if none has a name.
func flags(v uint64, names []flag) string {
	var out []string
	for _, n := range names {
		if v&n.value != 0 {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, "|")
}

// value is the name of a value, or its number.
func value(v uint64, names []flag) string {
	for _, n := range names {
		if v&low32 == n.value {
			return n.name
		}
	}
	return fmt.Sprint(v & low32)
}
