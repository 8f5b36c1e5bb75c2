//go:build seccomp

package sandbox

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		call string
		args [6]uint64
		want string
	}{
		{"unshare", [6]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_FILES}, "CLONE_NEWNS|CLONE_NEWUSER"},
		{"clone", [6]uint64{unix.CLONE_NEWPID | uint64(unix.SIGCHLD)}, "CLONE_NEWPID"},
		{"setns", [6]uint64{3, unix.CLONE_NEWNET}, "CLONE_NEWNET"},
		{"setns", [6]uint64{3, 0}, ""},
		{"mount", [6]uint64{1, 2, 3, unix.MS_BIND | unix.MS_REC}, "MS_BIND|MS_REC"},
		{"mount", [6]uint64{1, 2, 3, 0}, ""},
		{"socket", [6]uint64{unix.AF_INET | 1<<40, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, "AF_INET, SOCK_RAW, protocol 1"},
		{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER"},
		{"socket", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, "AF_VSOCK, SOCK_STREAM"},
		{"socket", [6]uint64{46, 9}, "46, 9"},
		{"ioctl", [6]uint64{0, unix.TIOCSTI | 1<<40}, "TIOCSTI"},
		{"prlimit64", [6]uint64{0xffffffff, unix.RLIMIT_CPU}, "process -1, limit 0"},
		{"chroot", [6]uint64{1}, ""},
	} {
		require.Equal(t, c.want, describe(c.call, c.args), c.call)
	}
}

// What a process puts into its registers ends up in events and on terminals.
func FuzzWanted(f *testing.F) {
	f.Add("socket", uint64(unix.AF_INET), uint64(unix.SOCK_RAW), uint64(1), uint64(0))
	f.Add("mount", uint64(0), uint64(0), uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, call string, a, b, c, d uint64) {
		text := describe(call, [6]uint64{a, b, c, d, a, b})
		require.Less(t, len(text), 256)
		require.True(t, utf8.ValidString(text))
		for _, r := range text {
			require.True(t, r >= ' ' && r < 0x7f)
		}
	})
}
