//go:build seccomp

package sandbox

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// audits has the audited escapes, and their kinds. The others are denied by other parts than the
// filter (the kernel itself, a mount), or not audited for the reasons given beside the list.
var audits = map[string]string{
	"mount tmpfs": "mount", "mount bind": "mount MS_BIND", "remount rw": "mount MS_BIND|MS_REMOUNT", "mount by propagation": "mount MS_REC|MS_SHARED",
	"umount": "umount2", "umount masked": "umount2", "pivot_root": "pivot_root", "chroot": "chroot", "setns own": "setns",
	"open_tree": "open_tree", "move_mount": "move_mount", "fsopen": "fsopen", "fspick": "fspick", "fsmount": "fsmount", "mount_setattr": "mount_setattr",
	"unshare user": "unshare CLONE_NEWUSER", "unshare, high bits": "unshare CLONE_NEWUSER", "unshare mount": "unshare CLONE_NEWNS",
	"unshare net": "unshare CLONE_NEWNET", "unshare time": "unshare CLONE_NEWTIME", "unshare pid": "unshare CLONE_NEWPID",
	"clone user": "clone CLONE_NEWUSER", "clone pid": "clone CLONE_NEWPID", "clone cgroup": "clone CLONE_NEWCGROUP",
	"pidfd_getfd": "pidfd_getfd", "pidfd_getfd of init": "pidfd_getfd", "process_madvise": "process_madvise", "process 1: time limit": "prlimit64 process 1, limit 0",
	"keyctl": "keyctl command 0x0", "add_key": "add_key", "request_key": "request_key",
	"bpf": "bpf command 0x0", "perf_event_open": "perf_event_open process 0, processor 0", "userfaultfd": "userfaultfd", "fanotify_init": "fanotify_init",
	"io_uring_setup": "io_uring_setup", "open_by_handle_at": "open_by_handle_at",
	"quotactl": "quotactl command 0x0", "reboot": "reboot command 0x0", "swapon": "swapon", "swapoff": "swapoff", "acct": "acct", "settimeofday": "settimeofday",
	"clock_settime": "clock_settime", "kexec_load": "kexec_load", "kexec_file_load": "kexec_file_load", "init_module": "init_module",
	"finit_module": "finit_module", "delete_module": "delete_module", "syslog": "syslog command 0x3", "sethostname": "sethostname",
	"setdomainname": "setdomainname", "iopl": "iopl", "ioperm": "ioperm",
	"TIOCSTI": "ioctl TIOCSTI", "TIOCSTI, high bits": "ioctl TIOCSTI", "TIOCSTI of own terminal": "ioctl TIOCSTI", "TIOCLINUX": "ioctl TIOCLINUX",
	"socket vsock": "socket AF_VSOCK, SOCK_STREAM", "socket vsock, high": "socket AF_VSOCK, SOCK_STREAM", "socket alg": "socket AF_ALG, SOCK_SEQPACKET",
	"socket packet": "socket AF_PACKET, SOCK_RAW", "socket packet, datagram": "socket AF_PACKET, SOCK_DGRAM",
	"socket raw": "socket AF_INET, SOCK_RAW, protocol 1", "socket raw, any": "socket AF_INET, SOCK_RAW, protocol 255",
	"socket raw, IPv6": "socket AF_INET6, SOCK_RAW, protocol 58", "socket raw, close-on-exec": "socket AF_INET, SOCK_RAW, protocol 6",
	"socket old packet": "socket AF_INET, SOCK_PACKET, protocol 768", "socket sctp": "socket AF_INET, SOCK_STREAM, protocol 132",
	"socket l2tp": "socket AF_INET, SOCK_DGRAM, protocol 115", "socket dccp": "socket AF_INET, SOCK_DCCP, protocol 33",
	"socket xdp": "socket AF_XDP, SOCK_RAW", "socket bluetooth": "socket AF_BLUETOOTH, SOCK_RAW", "socket can": "socket AF_CAN, SOCK_RAW",
	"socket tipc": "socket AF_TIPC, SOCK_DGRAM", "socket rds": "socket AF_RDS, SOCK_SEQPACKET", "socket key": "socket AF_KEY, SOCK_RAW",
	"socket kcm": "socket AF_KCM, SOCK_DGRAM", "netlink: audit": "socket AF_NETLINK, SOCK_RAW, NETLINK_AUDIT",
	"netlink: nftables": "socket AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER", "netlink: generic": "socket AF_NETLINK, SOCK_RAW, NETLINK_GENERIC",
	"netlink: device events": "socket AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT", "netlink: xfrm": "socket AF_NETLINK, SOCK_RAW, NETLINK_XFRM",
}

// record collects the audited calls of a sandbox until none has come for a while.
func record(t testing.TB, s *Sandbox) map[string]RefusedCall {
	t.Helper()
	out := map[string]RefusedCall{}
	for {
		select {
		case c, ok := <-s.Refused():
			require.True(t, ok)
			out[strings.TrimSpace(c.Call+" "+c.Wanted)] = c
		case <-time.After(time.Second):
			return out
		}
	}
}

// requireAudits requires the audited escapes, and nothing else: the process makes threads and
// sockets, reads its limits and much else besides.
func requireAudits(t testing.TB, s *Sandbox) {
	t.Helper()
	want := map[string]bool{}
	for name, what := range audits {
		require.Contains(t, everyEscape(), name)
		want[what] = true
	}
	got := record(t, s)
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	for what, c := range got {
		require.Equal(t, "polis-init", c.Program, what)
		require.Positive(t, c.Pid, what)
		require.NotEmpty(t, c.Kind, what)
		require.WithinDuration(t, time.Now(), c.Time, time.Minute)
	}
}

// requireEscapesFail runs every escape.
func requireEscapesFail(t testing.TB, s *Sandbox) {
	t.Helper()
	out, code := inside(t, s, "escape")
	require.Equal(t, 0, code, out)
	requireRefused(t, out)
}

// requireRefused requires of every escape the errno of the table.
func requireRefused(t testing.TB, out string) {
	t.Helper()
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &got), out)
	for _, name := range slices.Sorted(maps.Keys(everyEscape())) {
		want := otherwise[name]
		if want == nil {
			want = []string{"EPERM"}
		}
		require.Contains(t, want, got[name], name)
	}
}
