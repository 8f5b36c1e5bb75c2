package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const hostPasswd = `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
dev:x:1000:1000:A Developer,,,:/home/dev:/bin/zsh
broken line
`

func TestPasswdNamesTheUser(t *testing.T) {
	for name, tc := range map[string]struct {
		host, user string
		uid        int
		home, want string
		not        string
	}{
		"unknown user":          {hostPasswd, "agent", 2000, "/home/agent", "agent:x:2000:7:agent:/home/agent:", ""},
		"known, another home":   {hostPasswd, "dev", 1000, "/home/x", "dev:x:1000:7:dev:/home/x:", "/home/dev"},
		"known by number only":  {hostPasswd, "agent", 1000, "/home/x", "agent:x:1000:7:agent:/home/x:", "dev:"},
		"known by name only":    {hostPasswd, "dev", 2000, "/home/x", "dev:x:2000:7:dev:/home/x:", "dev:x:1000"},
		"host without the file": {"", "agent", 2000, "/home/agent", "agent:x:2000:7:agent:/home/agent:", ""},
	} {
		got := string(passwdFor([]byte(tc.host), tc.user, "", tc.uid, 7, tc.home))
		require.Contains(t, got, tc.want, name)
		if tc.not != "" {
			require.NotContains(t, got, tc.not, name)
		}
		if tc.host != "" {
			require.True(t, strings.HasPrefix(got, "root:x:0:0:"), name)
		}
	}
}

// Whatever the host's list contains, the user appears once and no other line has uid 0.
func TestPasswdHasTheUserOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%s:x:%d:%d::/home/x:/bin/sh",
				rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "name"), rapid.IntRange(0, 9).Draw(t, "uid"), rapid.IntRange(0, 9).Draw(t, "gid"))
		})
		host := strings.Join(rapid.SliceOf(line).Draw(t, "host"), "\n")
		user, uid := rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "user"), rapid.IntRange(1, 9).Draw(t, "own")
		full := rapid.String().Draw(t, "full name")
		got := passwdFor([]byte(host), user, full, uid, 5, "/home/own")
		require.Equal(t, 1, strings.Count("\n"+string(got), fmt.Sprintf("\n%s:x:%d:5:", user, uid)))
		for l := range strings.Lines(string(got)) {
			f := strings.Split(strings.TrimSpace(l), ":")
			require.Equal(t, f[0] == user, f[2] == strconv.Itoa(uid), l)
			require.True(t, f[2] != "0" || strings.Contains(host, strings.TrimSpace(l)), l)
		}
		require.Equal(t, got, passwdFor(got, user, full, uid, 5, "/home/own"), "stable")
	})
}

func TestGroupAndHosts(t *testing.T) {
	require.Equal(t, "root:x:0:\nagent:x:7:\n", string(groupFor([]byte("root:x:0:\n"), "agent", 7)))
	require.Equal(t, "agent:x:3:\ngroup7:x:7:\n", string(groupFor([]byte("agent:x:3:\n"), "agent", 7)))
	require.Equal(t, "staff:x:7:\n", string(groupFor([]byte("staff:x:7:"), "agent", 7)))
	const base = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\tclaude\n"
	got := string(hostsFor([]byte("# names\n127.0.0.1 localhost\n127.0.1.1 myhost\n::1 localhost\n10.0.0.9 registry\nff02::1 ip6-allnodes\n"), "claude", "", false))
	require.Equal(t, base+"10.0.0.9 registry\nff02::1 ip6-allnodes\n", got)
	got = string(hostsFor([]byte("192.168.65.254 Host.Docker.Internal\n10.0.0.9 registry host.polis\n127.0.0.1 host.docker.internal\n"), "claude", "", false))
	require.Equal(t, base+"10.0.0.9 registry\n", got, "the resolver answers for the host's names")
	require.Contains(t, string(hostsFor(nil, "claude", "", true)), "127.0.0.1\thost.polis host.docker.internal", "in the host's network")
	require.Contains(t, string(hostsFor(nil, "claude", "x.invalid", false)), "127.0.1.1\tclaude.x.invalid claude\n")
	require.Equal(t, "Ann of B C", gecos("Ann, of: B\n & C\xff"))
}

func TestEnvironmentIsMerged(t *testing.T) {
	c := Config{User: "agent", Home: "/home/agent", UID: 7, Env: []string{"A=1", "PATH=/x", "nonsense", "=x"}}
	got := c.env([]string{"A=2", "B="})
	require.Contains(t, got, "A=2")
	require.NotContains(t, got, "A=1")
	require.Contains(t, got, "PATH=/x")
	require.Contains(t, got, "B=")
	require.NotContains(t, got, "nonsense")
	require.NotContains(t, got, "=x")
	require.Contains(t, got, "XDG_RUNTIME_DIR=/run/user/7")
}

// The list is read by eyes: it must not name what is left out on purpose.
func TestProfileLeavesOutWhatIsDangerous(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range profile(false, false, "/x").Syscalls {
		if s.Action == configs.Allow {
			names[s.Name] = true
		}
	}
	for _, n := range strings.Fields(`mount umount umount2 pivot_root chroot setns bpf keyctl add_key request_key
		kexec_load kexec_file_load init_module finit_module delete_module open_by_handle_at perf_event_open userfaultfd
		io_uring_setup io_uring_enter io_uring_register quotactl quotactl_fd reboot swapon swapoff acct settimeofday
		clock_settime iopl ioperm process_madvise pidfd_getfd fsopen fsconfig fsmount
		fspick open_tree move_mount mount_setattr open_tree_attr nfsservctl lookup_dcookie fanotify_init syslog
		vhangup modify_ldt move_pages migrate_pages mbind sethostname setdomainname kcmp socketcall ipc`) {
		require.False(t, names[n], n)
	}
	for _, n := range strings.Fields(`read write openat execve futex rseq statx clone unshare ioctl personality socket`) {
		require.True(t, names[n], n)
	}
}
