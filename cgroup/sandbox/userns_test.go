//go:build seccomp

package sandbox

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// In namespaces of its own a process is root, and still inside everything else.
func TestUserNamespacesAreAnOption(t *testing.T) {
	if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err != nil || strings.TrimSpace(string(b)) == "0" {
		t.Skip("this kernel makes no user namespaces")
	}
	without := create(t, testConfig(t))
	out, code := run(t, without, "unshare", "-Ur", "true")
	require.NotZero(t, code)
	require.Contains(t, out, "Operation not permitted")

	cfg := testConfig(t)
	cfg.UserNamespaces = true
	s := create(t, cfg)
	require.Equal(t, "0", sh(t, s, "unshare -Ur id -u"))
	require.Equal(t, "seen", sh(t, s, `unshare -Urmnpf --propagation private sh -c 'mount -t tmpfs none /tmp && echo seen > /tmp/f && cat /tmp/f'`))
	for name, script := range map[string]string{
		"uncover a masked file":     "umount /proc/kcore",
		"write to the host's files": "mount -o remount,rw,bind /usr",
		"setuid programs":           "mount -o remount,suid,bind /usr",
		"devices":                   "mount -o remount,dev,bind /tmp && mknod /tmp/disk b 254 0",
		"a new /proc without masks": "mount -t proc proc /tmp",
		"a device":                  "mknod /tmp/mem c 1 1",
		"the disk":                  "mount /dev/vda /tmp",
		"nftables":                  "nft list ruleset",
		"raw sockets":               "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
		"control groups":            "echo $$ > /sys/fs/cgroup/cgroup.procs || mount -t cgroup2 none /tmp && mkdir /tmp/polis-test",
		"kernel parameters":         "echo 1 > /proc/sys/kernel/dmesg_restrict",
		"the kernel's messages":     "dmesg",
		"process 1":                 "cat /proc/1/environ",
	} {
		out, code := run(t, s, "unshare", "-Urmn", "sh", "-c", script)
		require.NotZero(t, code, "%s: %s", name, out)
	}
}
