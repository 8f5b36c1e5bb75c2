package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// ownCtl runs polisctl in the sandbox of an agent, again while that is too early, and returns its output.
func (d *daemon) ownCtl(agent, args string) (r result) {
	d.t.Helper()
	d.eventually("it is its turn", func() bool {
		r = d.exec(agent, "sh", "-c", "polisctl "+args)
		return !strings.Contains(r.stderr, "too often")
	})
	return r
}

// TestASnapshotInsideTheSandbox has what the rules of the agent let it read, as they are now, and nothing can be
// changed in it. The host does not see the mount.
func TestASnapshotInsideTheSandbox(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\nkeep = 3\n"})
	d.up()
	d.add("alice", "--write", "**")
	d.add("bob")
	d.sh("alice", "mkdir -p sub/empty; echo secret >sub/key; echo plain >sub/plain; ln -s ../main.txt sub/link; chmod 600 sub/plain")
	s := d.snapshot("alice")
	d.sh("alice", "rm -r sub; echo other >main.txt")
	m := d.mountSnapshot(s.ID, "--inside")
	require.Equal(t, api.SnapshotMount{ID: s.ID, Agent: "alice", At: "/run/polis/snapshots/" + s.ID, Inside: true}, m)
	require.Contains(t, d.must("snapshot", "show", s.ID), m.At)
	require.Empty(t, d.snapshotMounts(), "not on the host")
	require.NoFileExists(t, filepath.Join(d.path("run"), "agents/alice/inside/snapshots", s.ID, "main.txt"))
	in := func(script string) result { return d.exec("alice", "sh", "-c", "cd "+m.At+" && "+script) }
	ok := func(want, script string) {
		t.Helper()
		r := in(script)
		require.Equal(t, want, r.stdout, "%s: %s", script, r)
	}
	ok("secret\nplain\n", "cat sub/key sub/plain")
	ok("one\ntwo\nthree\n", "cat sub/link")
	ok("ok\n", "test -d sub/empty && ! test -e .git && echo ok")
	for _, bad := range []string{"echo x >main.txt", "rm main.txt", "touch new", "chmod 777 sub/plain", "mv sub/plain sub/x", "umount " + m.At} {
		require.NotZero(t, in(bad).code, bad)
	}
	require.NotContains(t, in("cat /proc/mounts").stdout, d.path("run"), "the path of its shim is not there")
	require.NotContains(t, d.sh("bob", "ls -A /run/polis; cat /proc/mounts"), s.ID)

	// Rules that change hold at once, also for what is open, as in the worktree.
	d.exec("alice", "sh", "-c", "(exec 3<"+m.At+"/sub/key; touch /tmp/open; while ! test -e /tmp/go; do sleep 0.05; done; cat <&3 >/tmp/read 2>&1; touch /tmp/end) >/dev/null 2>&1 &")
	d.eventually("it is open", func() bool { return d.exec("alice", "test", "-e", "/tmp/open").code == 0 })
	d.must("agents", "set", "alice", "--hide", "sub/plain", "--deny", "sub/key", "--deny", "run.sh")
	ok("empty\nkey\nlink\n", "ls sub")
	require.Contains(t, in("cat sub/key").stderr, "Permission denied")
	require.Contains(t, d.exec("alice", "cat", "run.sh").stderr, "Permission denied", "as in the worktree")
	require.Contains(t, in("cat run.sh").stderr, "Permission denied")
	require.Contains(t, in("cat sub/plain").stderr, "No such file")
	require.Contains(t, in("stat sub/plain").stderr, "No such file")
	ok("7\n", "stat -c %s sub/key")
	require.Contains(t, d.sh("alice", "cat /run/polis/why"), "sub/key")
	d.sh("alice", "touch /tmp/go")
	d.eventually("it has ended", func() bool { return d.exec("alice", "test", "-e", "/tmp/end").code == 0 })
	require.NotContains(t, d.sh("alice", "cat /tmp/read"), "secret")
	require.Equal(t, api.CodeBadRequest, d.refused(api.CodeBadRequest, "snapshot", "mount", s.ID, "--inside", "--at", t.TempDir()).Code)
	d.refused(api.CodeBadState, "snapshot", "mount", s.ID, "--inside")

	// A person and the agent can each have it.
	host := d.mountSnapshot(s.ID)
	require.Equal(t, "secret\n", readFile(filepath.Join(host.At, "sub/key")))
	d.must("snapshot", "umount", s.ID)
	ok("empty\nkey\nlink\n", "ls sub")
	d.exec("alice", "sh", "-c", "(cd "+m.At+"/sub; exec sleep 100) >/dev/null 2>&1 &")
	d.must("snapshot", "rm", s.ID)
	require.NotZero(t, in("true").code)
	require.NotContains(t, d.sh("alice", "ls /run/polis/snapshots; cat /proc/mounts"), s.ID)
}

// TestAnAgentMountsItsCheckpoints itself, few at a time, its own only; they stay as long as they are mounted, survive a crash of
// polisd, and nothing is left after one of the shim.
func TestAnAgentMountsItsCheckpoints(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\nkeep = 3\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo first >n")
	first := d.checkpoint("alice")
	d.sh("alice", "echo second >n")
	second := d.checkpoint("alice")
	at := func(r result) string {
		require.Zero(t, r.code, r)
		return strings.TrimSpace(r.stdout)
	}
	require.Equal(t, "/run/polis/snapshots/"+second.ID, at(d.ownCtl("alice", "-q snapshot mount")))
	one := at(d.ownCtl("alice", "-q snapshot mount "+first.ID))
	require.Equal(t, "first\n", d.sh("alice", "cat "+one+"/n"))
	require.Contains(t, d.ownCtl("alice", "snapshot mount "+d.checkpoint("bob").ID).stderr, "has no checkpoint")
	require.Contains(t, d.ownCtl("alice", "snapshot mount ../../etc").stderr, "has no checkpoint")
	require.Zero(t, d.ownCtl("alice", "snapshot umount "+second.ID).code)
	require.Contains(t, d.ownCtl("alice", "snapshot umount "+second.ID).stderr, "is not mounted")

	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, "first\n", d.sh("alice", "cat "+one+"/n"), "the shim serves it")
	for range 5 { // more checkpoints than are kept
		d.sh("alice", "date +%N >n")
		d.checkpoint("alice")
	}
	d.must("gc")
	require.Equal(t, "first\n", d.sh("alice", "cat "+one+"/n"))
	require.Contains(t, d.must("snapshot", "verify", first.ID), "is intact")
	require.Equal(t, 3, d.ctl("snapshot", "show", second.ID).code, "one that is not mounted is removed")

	for _, pid := range d.shimPIDs() {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}
	d.eventually("the agent is up again", func() bool {
		d.ctl("agents", "start", "alice") // succeeds also before polisd has noticed the death
		return d.exec("alice", "true").code == 0
	})
	require.Equal(t, "", d.sh("alice", "ls /run/polis/snapshots 2>/dev/null || true; grep polis-snapshot /proc/mounts || true"))
	require.Equal(t, one, at(d.ownCtl("alice", "-q snapshot mount "+first.ID)), "it can be mounted again")
	require.Equal(t, "first\n", d.sh("alice", "cat "+one+"/n"))
	d.must("agents", "stop", "alice")
	require.Empty(t, d.snapshotMounts())
	require.NoDirExists(t, filepath.Join(d.path("run"), "agents/alice/inside"))
	d.must("agents", "start", "alice")
	for range 5 {
		d.sh("alice", "date +%N >n")
		d.checkpoint("alice")
	}
	require.Equal(t, 3, d.ctl("snapshot", "show", first.ID).code, "it was kept only while it was mounted")
}
