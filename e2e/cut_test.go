package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cut shuts down the connection of an agent's shim to the lock server, as a network failure would:
// neither process takes part. It returns the number of connections.
func (d *daemon) cut(agent string) int {
	d.t.Helper()
	pid := d.shim(agent)
	proc, err := unix.PidfdOpen(pid, 0)
	require.NoError(d.t, err)
	defer unix.Close(proc)
	n := 0
	for _, link := range glob(fmt.Sprintf("/proc/%d/fd/*", pid)) {
		if to, err := os.Readlink(link); err != nil || !strings.HasPrefix(to, "socket:") {
			continue
		}
		num, err := strconv.Atoi(filepath.Base(link))
		require.NoError(d.t, err)
		fd, err := unix.PidfdGetfd(proc, num, 0)
		if err != nil {
			continue // closed since
		}
		if peer, err := unix.Getpeername(fd); err == nil {
			if u, ok := peer.(*unix.SockaddrUnix); ok && u.Name == d.path("run", "lockd.sock") {
				require.NoError(d.t, unix.Shutdown(fd, unix.SHUT_RDWR))
				n++
			}
		}
		require.NoError(d.t, unix.Close(fd))
	}
	return n
}

// TestCutConnectionsUnderLoad cuts the connections of working agents to the lock server repeatedly,
// removes the socket for a while, and stops polisd for a moment. No agent gets an error.
func TestCutConnectionsUnderLoad(t *testing.T) {
	rnd := dice(t)
	d := startDaemon(t, options{config: "[locks]\nhold = \"2s\"\n", mounts: tools(t)})
	d.up()
	c := d.hire(2)
	cuts := 0
	for range 15 {
		time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond)
		cuts += d.cut(c.names[rnd.IntN(len(c.names))])
	}
	require.Positive(t, cuts)

	sock := d.path("run", "lockd.sock")
	require.NoError(t, os.Rename(sock, sock+".away"))
	for _, name := range c.names {
		d.cut(name)
	}
	time.Sleep(time.Second)
	require.NoError(t, os.Rename(sock+".away", sock))

	require.NoError(t, d.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(time.Second)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGCONT))
	time.Sleep(500 * time.Millisecond)
	c.dismiss()
}

// TestPolisdStopsForLongerThanASessionLasts: a shim that polisd does not answer loses its leases,
// and its agent may not write under them. A caller that requests a lease meanwhile gets none.
// Afterwards one agent has the file, never both.
func TestPolisdStopsForLongerThanASessionLasts(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"200ms\"\nhold = \"10m\"\ngrace = \"2s\"\nstale_timeout = \"2s\"\ndaemon_wait = \"500ms\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo alice > main.txt")
	before := d.locks()["main.txt"]
	require.Equal(t, "alice", before.Holder)
	mine := d.later("alice", "echo more >> main.txt")
	mineLater := d.later("alice", "echo more >> main.txt")
	theirs := d.later("bob", "echo bob > main.txt")
	reads := d.later("bob", "cat main.txt; ls src")

	require.NoError(t, d.cmd.Process.Signal(syscall.SIGSTOP))
	r := mine()
	require.Zero(t, r.code, "within the time the lease is good without polisd: %s", r)
	time.Sleep(3 * time.Second)
	for name, f := range map[string]func() result{"the holder": mineLater, "another": theirs} {
		r := f()
		require.NotZero(t, r.code, "%s wrote without a lease", name)
		require.Contains(t, r.stderr, "temporarily unavailable", name)
	}
	require.Zero(t, reads().code, "reading needs no server")
	require.Equal(t, "alice\nmore\n", readFile(d.path("ws", ".polis", "worktrees", "alice", "main.txt")))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGCONT))

	d.eventually("one of them gets it", func() bool { return d.exec("bob", "sh", "-c", "echo bob > main.txt").code == 0 })
	require.Contains(t, d.exec("alice", "sh", "-c", "echo alice > main.txt").stderr, "busy")
	after := d.locks()["main.txt"]
	require.Equal(t, "bob", after.Holder)
	require.Greater(t, after.Token, before.Token)
}

// TestAProcessKilledInMidWrite: SIGKILL at random moments to a process that writes, renames,
// truncates and links. The view continues, the files are complete or a prefix, nothing else
// appears, and the leases end with the use of the files.
func TestAProcessKilledInMidWrite(t *testing.T) {
	rnd := dice(t)
	d := startDaemon(t, options{config: "[locks]\nwait = \"3s\"\nhold = \"close\"\ngrace = \"2s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	shim := d.shim("alice")
	d.sh("alice", "head -c 300000 /dev/zero | tr '\\0' a > $HOME/aaa")
	for range 4 {
		go d.exec("alice", "sh", "-c", `while :; do cat $HOME/aaa > main.txt; dd if=$HOME/aaa of=src/a.txt bs=4k conv=notrunc 2>/dev/null
truncate -s 1000 src/b.txt; cp $HOME/aaa docs/new.md; mv docs/new.md docs/guide.md; rm -f docs/link.md; ln README.md docs/link.md; done`)
		idle := len(d.inside("alice"))
		d.eventually("it writes", func() bool { return len(d.inside("alice")) > 1 && idle >= 1 })
		time.Sleep(time.Duration(rnd.IntN(250)) * time.Millisecond)
		d.killInside("alice")
		require.Equal(t, shim, d.shim("alice"))
		for name, text := range map[string]string{"main.txt": d.sh("alice", "cat main.txt"), "docs/guide.md": d.sh("alice", "cat docs/guide.md")} {
			rest := strings.Trim(text, "a")
			require.True(t, rest == "" || text == "one\ntwo\nthree\n" || text == "guide\n", "%s has what no agent wrote: %q", name, rest[:min(len(rest), 100)])
		}
		// The kernel closes its files, so the next agent can lock all of them at once.
		d.sh("bob", "for f in main.txt src/a.txt src/b.txt docs/guide.md docs/link.md docs/new.md; do : >> $f; done; rm -f docs/new.md docs/link.md")
	}
	d.eventually("no lease is left", func() bool { return len(d.locks()) == 0 })
	require.Equal(t, []string{"README.md", "docs", "docs/guide.md", "main.txt", "run.sh", "secret", "secret/key.txt", "src", "src/a.txt", "src/b.txt", "src/deep", "src/deep/er", "src/deep/er/c.txt"},
		strings.Fields(d.sh("alice", "rm -f docs/new.md docs/link.md; find * | sort")))
	tree := d.path("ws", ".polis", "worktrees", "alice")
	require.NotContains(t, strings.Join(append(glob(filepath.Join(tree, ".*")), glob(filepath.Join(tree, "*", ".*"))...), " "), "fuse_hidden")
	d.sh("alice", "git status --porcelain && git fsck --connectivity-only && git add -A && git commit -qm after")
}

// killInside kills every process of an agent but its process 1.
func (d *daemon) killInside(agent string) {
	d.t.Helper()
	for range 50 {
		pids := d.inside(agent)
		others := 0
		for _, pid := range pids {
			if comm := strings.TrimSpace(readFile(fmt.Sprintf("/proc/%d/comm", pid))); comm != "polis:init" && comm != "" {
				others++
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					require.ErrorIs(d.t, err, syscall.ESRCH)
				}
			}
		}
		if others == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.t.Fatal("the agent's processes do not die")
}
