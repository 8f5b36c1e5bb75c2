package e2e

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// pathOf is the path of the socket that an event is about.
func pathOf(e api.Event) string { s, _ := e.Data["path"].(string); return s }

// madeAgain waits for the n-th event about a socket, and returns it.
func (d *daemon) madeAgain(path string, n int) api.Event {
	d.t.Helper()
	var e api.Event
	d.eventually("the event of "+path, func() bool {
		if d.ctl("-q", "status").code != 0 {
			return false
		}
		k := 0
		for _, e = range d.eventsOf(api.EventSocket) {
			if pathOf(e) == path {
				if k++; k == n {
					return true
				}
			}
		}
		return false
	})
	return e
}

// askInside fails unless the socket of the sandbox answers.
const askInside = `import socket; s = socket.socket(socket.AF_UNIX); s.connect("/run/polis/api.sock"); s.send(b"GET /v1/status HTTP/1.0\r\n\r\n"); assert b" 200 " in s.recv(99)`

// TestRemovedSocketsAreMadeAgain: an administrator, or a program that cleans /run, removes them while agents work. Nothing
// has to be restarted, and no command of an agent ends.
func TestRemovedSocketsAreMadeAgain(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000")
	d.must("agents", "start", "--program", "alice")
	d.eventually("the command runs", func() bool { return d.ctl("agents", "exec", "alice", "--", "test", "-s", "pid").code == 0 })
	pid, shim := d.sh("alice", "cat pid"), shimPIDs(d)
	sockets := map[string]os.FileMode{
		d.path("run/polisd.sock"):                  0,
		d.path("run/lockd.sock"):                   0o600,
		d.path("run/agents/alice/shim.sock"):       0o660,
		d.path("run/agents/alice/inside/api.sock"): 0o600,
	}
	works := func() {
		t.Helper()
		require.Equal(t, pid, d.sh("alice", "cat pid; python3 -c '"+askInside+"'"))
		require.Equal(t, shim, shimPIDs(d))
		require.Equal(t, api.StatusRunning, d.statusOf("alice"))
	}
	modes := map[string]os.FileInfo{}
	for path, mode := range sockets {
		fi, err := os.Stat(path)
		require.NoError(t, err)
		if modes[path] = fi; mode != 0 {
			require.Equal(t, mode, fi.Mode().Perm(), path)
		}
	}
	theirs := d.path("theirs")
	require.NoError(t, os.WriteFile(theirs, []byte("theirs"), 0o600))
	for path := range sockets {
		for i, lose := range []func() error{
			func() error { return os.Remove(path) },
			func() error { require.NoError(t, os.Remove(path)); return os.Symlink(theirs, path) },
		} {
			require.NoError(t, lose())
			e := d.madeAgain(path, i+1)
			require.Empty(t, e.Code, e)
			require.Contains(t, e.Message, "it is made again")
			require.Equal(t, filepath.Base(path) == "shim.sock" || filepath.Base(path) == "api.sock", e.Agent == "alice", e)
			fi, err := os.Lstat(path)
			require.NoError(t, err)
			require.Equal(t, modes[path].Mode(), fi.Mode(), path)
			require.Equal(t, owns(modes[path]), owns(fi), path)
			require.Equal(t, modes[path].Sys().(*syscall.Stat_t).Gid, fi.Sys().(*syscall.Stat_t).Gid, path)
			works()
		}
	}
	require.Equal(t, "theirs", readFile(theirs))

	// The shims find the socket of the leases again, also when polisd was restarted.
	require.Error(t, d.signal(syscall.SIGKILL))
	require.NoError(t, os.Remove(d.path("run/agents/alice/shim.sock")))
	d.start()
	require.Equal(t, shim, shimPIDs(d), "it was adopted")
	works()
	d.sh("alice", "echo changed >> main.txt")
	d.heldBy("alice", "main.txt")
	d.must("agents", "stop", "alice")
	require.NoFileExists(t, d.path("run/agents/alice/shim.sock"))
}

func (d *daemon) statusOf(name string) api.Status {
	d.t.Helper()
	a, ok := d.agent(name)
	require.True(d.t, ok)
	return a.Status
}

// TestTheRunDirectoryIsMadeAgain: with its sockets and modes. Without agents nothing in it is mounted.
func TestTheRunDirectoryIsMadeAgain(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	run := d.path("run")
	before, err := os.Stat(run)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(run))
	require.Contains(t, d.madeAgain(d.path("run/polisd.sock"), 1).Message, "directory")
	d.madeAgain(d.path("run/lockd.sock"), 1)
	after, err := os.Stat(run)
	require.NoError(t, err)
	require.Equal(t, before.Mode(), after.Mode())
	d.add("alice")
	require.Equal(t, "changed\n", d.sh("alice", "echo changed > main.txt; cat main.txt"))
	d.heldBy("alice", "main.txt")

	// Moved away and back: a client that uses the old name is served too.
	require.NoError(t, os.Rename(d.path("run/polisd.sock"), d.path("run/away.sock")))
	d.madeAgain(d.path("run/polisd.sock"), 2)
	c, err := net.Dial("unix", d.path("run/away.sock"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, os.Rename(d.path("run/away.sock"), d.path("run/polisd.sock")))
	d.must("status")
	d.must("agents", "remove", "--force", "alice")
}
