package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// smallDisk is a file system of 48 MB of its own, and the function that fills
// it to the last byte; the file it fills it with comes back.
func smallDisk(t *testing.T) (dir string, fill func() string) {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-full-")
	require.NoError(t, err)
	require.NoError(t, syscall.Mount("polis-e2e", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=48m,mode=755"))
	t.Cleanup(func() {
		require.NoError(t, syscall.Unmount(dir, 0))
		require.NoError(t, os.Remove(dir))
	})
	return dir, func() string {
		name := filepath.Join(dir, "fill")
		f, err := os.Create(name)
		require.NoError(t, err)
		for buf := make([]byte, 1<<20); len(buf) > 0; {
			if _, err = f.Write(buf); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				buf = buf[:len(buf)/2]
			}
		}
		require.NoError(t, f.Close())
		return name
	}
}

func (d *daemon) warnings() string {
	d.t.Helper()
	var st struct{ Warnings []string }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "status")), &st))
	return strings.Join(st.Warnings, "\n")
}

// TestAFullDiskRefusesChangesAndLosesNothing: a change that cannot be stored is refused, stored
// state stays, agents continue, and a restart finds them. When there is space again, everything
// recovers automatically.
func TestAFullDiskRefusesChangesAndLosesNothing(t *testing.T) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: "[admission]\ndisk_free_mb = 0\n"})
	ws := filepath.Join(disk, "ws")
	d.must("up", "--repo", d.smallRepo(), ws)
	state := filepath.Join(ws, ".polis", "state.json")
	stop := filepath.Join(ws, ".polis", "homes", "alice", "stop")
	d.add("alice", "--", "sh", "-c", "while ! test -e $HOME/stop; do sleep 0.05; done; exit 7")
	d.must("agents", "start", "--program", "alice")
	require.NoError(t, os.WriteFile(stop+"-not", nil, 0o644))
	before := readFile(state)
	filler := fill()

	for _, change := range [][]string{
		{"agents", "add", "bob", "--base", "custom"},
		{"agents", "remove", "alice", "--force"},
		{"ports", "add", "alice", "5000"},
		{"merge", "alice"},
	} {
		d.refused(api.CodeStateNotSaved, change...)
	}
	require.Equal(t, before, readFile(state), "the old state is as it was")
	require.Contains(t, d.warnings(), "STATE_NOT_SAVED")
	_, there := d.agent("bob")
	require.False(t, there, "what was refused was not half done")
	require.Empty(t, d.ports("alice"))
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat main.txt"))
	require.Contains(t, d.exec("alice", "sh", "-c", "head -c 100000 /dev/zero > zero.txt").stderr, "No space left")

	// Its command ends, which cannot be refused.
	require.NoError(t, os.Rename(stop+"-not", stop))
	ended := func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusIdle && strings.Contains(a.StatusReason, "exit code 7")
	}
	d.eventually("the exit code", ended)
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.eventually("the exit code, which was not kept on disk", ended)
	require.Equal(t, 1, d.living())
	require.Equal(t, before, readFile(state))

	require.NoError(t, os.Remove(filler))
	d.eventually("it is saved by itself", func() bool { return strings.Contains(readFile(state), "exit code 7") })
	require.Empty(t, d.warnings())
	d.add("bob")
	d.must("agents", "remove", "alice", "--force")
	require.Empty(t, glob(filepath.Join(ws, ".polis", ".state.json.*")), "no temporary file is left")
}

// TestACorruptStateIsRenamedAndRebuilt from what was there before, from
// worktrees and from living shims.
func TestACorruptStateIsRenamedAndRebuilt(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nread = [\"**\"]\nwrite = [\"docs/**\"]\n"})
	d.up()
	state := d.path("ws", ".polis", "state.json")
	d.add("alice", "--role", "docs", "--memory", "200", "--port", "3000", "--branch", "topic", "--", "sleep", "1000")
	d.must("agents", "start", "--program", "alice")
	external := d.ports("alice")[3000].External
	d.add("carol")
	d.sh("carol", "echo unsaved > work.txt")
	d.must("agents", "stop", "carol")
	same := func(a api.Agent) {
		t.Helper()
		require.Equal(t, api.StatusRunning, a.Status)
		require.Equal(t, "docs", a.Role)
		require.Equal(t, 200, a.MemoryLimitMB)
		require.Equal(t, "topic", a.Branch)
		require.Equal(t, "custom", a.BaseType)
		require.Equal(t, []string{"sleep", "1000"}, a.Command)
		require.Equal(t, external, d.ports("alice")[3000].External)
		require.NotZero(t, d.exec("alice", "sh", "-c", "echo no > main.txt").code, "its rules hold")
		d.sh("alice", "echo yes > docs/guide.md")
	}
	for name, damage := range map[string]func(){
		"cut short": func() { require.NoError(t, os.Truncate(state, 100)) },
		"with the one before": func() {
			require.NoError(t, os.WriteFile(state, []byte("\x00\x00\x00"), 0o600))
			require.NoError(t, os.WriteFile(state+".old", nil, 0o600))
		},
		"gone": func() {
			require.NoError(t, os.Remove(state))
			require.NoError(t, os.Remove(state+".old"))
		},
	} {
		t.Log(name)
		require.Error(t, d.signal(syscall.SIGKILL))
		kept := len(glob(state + ".corrupt-*"))
		damage()
		d.start()
		if name != "gone" {
			require.Contains(t, d.warnings(), "STATE_CORRUPT")
			require.Len(t, glob(state+".corrupt-*"), kept+1)
		}
		a, there := d.agent("alice")
		require.True(t, there)
		same(a)
		a, there = d.agent("carol")
		require.True(t, there)
		require.Equal(t, api.StatusStopped, a.Status)
		require.Equal(t, "unsaved\n", readFile(d.path("ws", ".polis", "worktrees", "carol", "work.txt")))
		require.Contains(t, readFile(state), `"carol"`, "and written again")
	}
	// Carol did not run, so her rules are lost. They must not become permission for everything.
	require.Contains(t, d.warnings(), "polisctl agents set carol")
	d.must("agents", "start", "carol")
	require.Contains(t, d.exec("carol", "cat", "work.txt").stderr, "Permission denied")
	require.NotZero(t, d.exec("carol", "sh", "-c", "echo x > new.txt").code)
	a, _ := d.agent("carol")
	require.Equal(t, []string{"none"}, a.Egress)
	d.must("agents", "set", "carol", "--read", "**")
	require.Equal(t, "unsaved\n", d.sh("carol", "cat work.txt"))
	require.NotZero(t, d.exec("carol", "sh", "-c", "echo x > new.txt").code, "no more than it was given")
	require.NotContains(t, d.warnings(), "carol")

	// The same for the list of workspaces, which has one outside the usual place.
	list := d.path("state", "workspaces.json")
	require.Error(t, d.signal(syscall.SIGKILL))
	require.NoError(t, os.WriteFile(list, []byte("{"), 0o600))
	d.start()
	require.Contains(t, d.warnings(), "STATE_CORRUPT")
	require.Contains(t, d.warnings(), "polisctl up --repo PATH WORKSPACE adds one that is missing")
	if _, there := d.agent("alice"); !there {
		// There was no list before: the user says where it was, and all of it is back.
		require.Equal(t, 2, d.living(), "unknown agents are left at work")
		d.must("up", "--repo", d.path("src"), d.path("ws"))
	}
	a, _ = d.agent("alice")
	same(a)
}

// TestADamagedRuleDoesNotWidenRights: a flipped bit makes another word of "deny". The file is
// rejected, and so is the file before it if it is damaged. The file before it has the last change
// of the rules, so that it does not grant what was withdrawn.
func TestADamagedRuleDoesNotWidenRights(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.must("agents", "set", "alice", "--deny", "secret/**")
	if d.topMount("alice") == "overlay" {
		// "Files of the base tree are hidden from the next start" (docs/view.md, With the overlay above the view).
		d.must("agents", "stop", "alice")
		d.must("agents", "start", "--program", "alice")
	}
	refused := func(why string) {
		t.Helper()
		require.Contains(t, d.exec("alice", "cat", "secret/key.txt").stderr, "Permission denied", why)
	}
	refused("as a control")
	state := d.path("ws", ".polis", "state.json")
	flip := func(path string) {
		t.Helper()
		text := readFile(path)
		require.Contains(t, text, `"deny"`)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, `"deny"`, `"dena"`, 1)), 0o600))
	}
	d.stop()
	flip(state)
	d.start()
	require.Contains(t, d.warnings(), "STATE_CORRUPT")
	d.must("agents", "start", "--program", "alice")
	refused("the state before knows the rules")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat main.txt"))

	d.stop()
	flip(state)
	flip(state + ".old")
	d.start()
	d.must("agents", "start", "--program", "alice")
	refused("nobody knows the rules")
	require.Contains(t, d.exec("alice", "cat", "main.txt").stderr, "Permission denied")
	d.must("agents", "set", "alice", "--read", "**", "--write", "**", "--deny", "secret/**")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat main.txt; echo x >> main.txt"))
	refused("as it was set again")

	// The same of what a shim was started with.
	require.Error(t, d.signal(syscall.SIGKILL))
	flip(d.path("run", "agents", "alice", "spec.json"))
	for _, f := range []string{state, state + ".old"} {
		require.NoError(t, os.Remove(f))
	}
	d.start()
	require.Contains(t, d.warnings(), "the rules of agent alice are lost")
	refused("its shim lives, and its spec is not believed")
	require.Contains(t, d.exec("alice", "cat", "main.txt").stderr, "Permission denied")
}
