package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/shim/dial"
)

// beforeVersion2 is the last commit whose programs speak version 1 of the protocol.
const beforeVersion2 = "039ffb7"

// olderPrograms builds the programs as they were at a commit and returns where
// they are, or "" if this is not a clone with its history.
func olderPrograms(t *testing.T, commit string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	git := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*", "-C", root}, args...)...)
	}
	if git("cat-file", "-e", commit+"^{commit}").Run() != nil {
		return ""
	}
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-older-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	archive := filepath.Join(dir, "tree.tar")
	for _, cmd := range []*exec.Cmd{git("archive", "-o", archive, commit), exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", dir),
		exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "seccomp", "-ldflags", "-s -w", "-o", ".", "./cmd/polisd", "./cmd/polisctl", "./cmd/polis-shim")} {
		if cmd.Args[0] == "go" {
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=1")
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", cmd, out)
	}
	return dir
}

func (d *daemon) shimStatus(agent string) wire.Status {
	d.t.Helper()
	sh := dial.New(d.path("run", "agents", agent, "shim.sock"))
	defer sh.Close()
	st, err := sh.Status(d.t.Context())
	require.NoError(d.t, err)
	return st
}

// TestAnUpgradeUnderLoad installs new programs and restarts polisd while agents that the old polisd
// made work in shims of the old version. They continue, every request to them works, and their next
// start gives them the new shim. Package dial tests the same against a record of that version, for
// a tree without history.
func TestAnUpgradeUnderLoad(t *testing.T) {
	older := olderPrograms(t, beforeVersion2)
	if older == "" {
		t.Log("there is no history here to build the older shim from")
		return
	}
	d := startDaemon(t, options{config: "[locks]\nwait = \"200ms\"\nhold = \"10m\"\ngrace = \"2s\"\n", mounts: tools(t), full: true})
	require.Error(t, d.signal(syscall.SIGKILL))
	config := readFile(d.path("polisd.toml"))
	current := d.bin
	d.write("polisd.toml", strings.Replace(config, current, older, 1))
	d.bin, d.early = older, true
	d.start()
	d.up()
	c := d.hire(1)
	d.add("alice", "--port", "3000")
	d.serve("alice", "127.0.0.1", 3000)
	d.fetchEventually(d.ports("alice")[3000].External, "alice 127.0.0.1")
	require.Equal(t, 1, d.shimStatus("alice").Version)
	opens := d.later("alice", "exec setsid python3 -c 'import socket,time\ns=socket.socket(); s.bind((\"127.0.0.1\",4100)); s.listen(); time.sleep(600)' >/dev/null 2>&1")
	writes := d.later("alice", "echo alice > main.txt")

	d.write("polisd.toml", config)
	require.Error(t, d.signal(syscall.SIGKILL))
	d.bin, d.early = current, false
	go opens() //nolint:errcheck // it serves until its agent is stopped
	d.start()
	require.Equal(t, 1, d.shimStatus("alice").Version)
	d.add("bob")
	require.Equal(t, wire.Version, d.shimStatus("bob").Version)
	require.Zero(t, writes().code)
	require.Contains(t, d.exec("bob", "sh", "-c", "echo bob > main.txt").stderr, "busy", "both know one lock table")
	require.Contains(t, d.must("agents", "why", "bob"), "main.txt")
	d.fetchEventually(d.ports("alice")[3000].External, "alice 127.0.0.1")
	d.eventually("the port that was opened meanwhile", func() bool { return d.ports("alice")[4100].External != 0 })
	d.must("ports", "add", "alice", "5000")
	d.must("ports", "remove", "alice", "5000")
	d.sh("alice", "git branch made-before && git commit -qam x")
	d.must("merge", "alice")
	r := d.ctlInput("typed\n", "agents", "exec", "alice", "--", "sh", "-c", "read x; echo got $x; exit 3")
	require.Equal(t, result{"got typed\n", "", 3}, r)

	require.NoError(t, d.signal(syscall.SIGUSR1))
	d.start()
	c.dismiss()
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, wire.Version, d.shimStatus("alice").Version)
	require.Equal(t, "alice\n", d.sh("alice", "cat main.txt"))
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusIdle, a.Status)
}
