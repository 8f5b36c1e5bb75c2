package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// ctlAs runs polisctl as another user with one group.
func (d *daemon) ctlAs(uid, gid uint32, args ...string) result {
	d.t.Helper()
	program := d.path("polisctl") // the build directory may be closed to others
	if _, err := os.Stat(program); err != nil {
		b, err := os.ReadFile(filepath.Join(d.bin, "polisctl"))
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile(program, b, 0o755))
	}
	cmd := exec.CommandContext(d.t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{}}}
	return capture(cmd, "")
}

// TestMembersOfTheReadGroupReadOnly. Users who are in no group cannot connect.
func TestMembersOfTheReadGroupReadOnly(t *testing.T) {
	const user, readers = 64120, 64121
	d := startDaemon(t, options{config: "read_group = \"64121\"\n"})
	d.up()
	d.add("alice")
	for _, args := range [][]string{{"status"}, {"agents", "list"}, {"events"}, {"agents", "diff", "alice"}, {"agents", "why", "alice"}, {"locks"}, {"conflicts"}, {"queue"}, {"metrics"}} {
		r := d.ctlAs(user, readers, args...)
		require.Zero(t, r.code, "%v: %s", args, r)
	}
	for _, args := range [][]string{{"agents", "add", "bob", "--base", "custom"}, {"agents", "stop", "alice"}, {"agents", "remove", "alice"}, {"agents", "set", "alice", "--memory", "300"},
		{"merge", "alice"}, {"lock", "README.md", "--agent", "alice"}, {"ports", "add", "alice", "80"}, {"gc"}, {"agents", "exec", "alice", "--", "true"}} {
		r := d.ctlAs(user, readers, args...)
		require.NotZero(t, r.code, "%v: %s", args, r)
		require.Contains(t, r.stderr, "user 64120 is in the group that may only read", args)
	}
	a, ok := d.agent("alice")
	require.True(t, ok)
	require.Equal(t, 512, a.MemoryLimitMB)
	require.NotZero(t, d.ctlAs(user, user, "status").code)

	// Without the key they have no access, also after a restart of polisd.
	d.stop()
	text := readFile(d.path("polisd.toml"))
	d.write("polisd.toml", strings.Replace(text, "read_group = \"64121\"\n", "", 1))
	d.start()
	require.NotZero(t, d.ctlAs(user, readers, "status").code)
}
