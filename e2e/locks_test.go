package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func decode(t testing.TB, text string, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), v), text)
}

// why returns the content of /run/polis/why, which is written a moment after the refusal.
func (d *daemon) why(agent, word string) string {
	d.t.Helper()
	text := ""
	d.eventually("why of "+agent+" to name "+word, func() bool {
		text = d.sh(agent, "cat /run/polis/why")
		return strings.Contains(text, word)
	})
	return text
}

// TestProgramsMeetLocks: one agent holds a file, and every kind of program that changes files tries
// to change it in another agent. The programs have no notion of locks. Each must fail, report it,
// and leave the file unchanged.
func TestProgramsMeetLocks(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\nhold = \"10m\"\n"})
	d.up()
	d.add("alice", "--memory", "1024")
	d.add("bob", "--memory", "1024")
	d.sh("alice", "for f in main.txt src/a.txt README.md; do printf 'held\\n' >> $f; done")
	for _, p := range []string{"main.txt", "src/a.txt", "README.md"} {
		d.heldBy("alice", p)
	}
	for _, c := range []struct {
		name, needs, script string
		// quiet programs end without an error, and leave the file unchanged
		quiet bool
	}{
		{"shell redirection", "", "echo x > main.txt", false},
		{"shell append", "", "echo x >> main.txt", false},
		{"sed -i", "sed", "sed -i s/one/1/ main.txt", false},
		{"tee", "tee", "echo x | tee main.txt", false},
		{"cp onto", "cp", "cp README.md main.txt", false},
		{"mv onto", "mv", "echo x > build.tmp; mv -f build.tmp main.txt", false},
		{"mv away", "mv", "mv main.txt other.txt", false},
		{"mv of a directory above", "mv", "mv src src2", false},
		{"rm", "rm", "rm -f main.txt", false},
		{"rm -r of a directory above", "rm", "rm -rf src", false},
		{"truncate", "truncate", "truncate -s 0 main.txt", false},
		{"ln -f onto", "ln", "ln -f README.md main.txt", false},
		{"dd", "dd", "dd if=/dev/zero of=main.txt bs=1 count=1 conv=notrunc", false},
		{"chmod", "chmod", "chmod 600 main.txt", false},
		{"touch with a time", "touch", "touch -d 2001-01-01 main.txt", false},
		{"patch", "", "printf -- '--- a/main.txt\\n+++ b/main.txt\\n@@ -1 +1 @@\\n-one\\n+1\\n' | git apply", false},
		{"git checkout of an older version", "git", "git rm -q --cached main.txt; git checkout HEAD -- main.txt || { git reset -q; exit 1; }", true},
		{"python in place", "python3", "/usr/bin/python3 -c 'open(\"main.txt\",\"w\").write(\"x\")'", false},
		{"python mmap", "python3", "/usr/bin/python3 -c 'import mmap; f=open(\"main.txt\",\"r+b\"); m=mmap.mmap(f.fileno(),0); m[0]=88'", false},
		{"node in place", "node", "node -e 'require(\"fs\").writeFileSync(\"main.txt\",\"x\")'", false},
		{"temporary with pid and hex, then rename", "python3", `/usr/bin/python3 -c '
import os
t="main.txt.tmp.%d.0123456789ab" % os.getpid()
fd=os.open(t, os.O_WRONLY|os.O_CREAT|os.O_EXCL, 0o644)
os.write(fd,b"x"); os.close(fd); os.rename(t,"main.txt")'`, false},
		{"temporary with hex, then rename", "python3", `/usr/bin/python3 -c '
import os
t="main.txt.0123456789ab.tmp"
open(t,"w").write("x"); os.rename(t,"main.txt")'`, false},
		{"vim", "vim", `timeout 30 vim -u NONE -es -c '%s/one/1/' -c 'wq!' main.txt </dev/null`, false},
		{"vim with backup and swap", "vim", `timeout 30 vim -N -u NONE -es --cmd 'set backup writebackup backupcopy=no swapfile' -c '%s/one/1/' -c 'wq!' main.txt </dev/null`, false},
		{"emacs", "emacs", `timeout 60 emacs -Q --batch main.txt --eval '(progn (insert "x") (save-buffer))'`, false},
		{"nano", "nano", `(sleep 1; printf x; sleep 0.5; printf '\017'; sleep 0.5; printf '\r'; sleep 0.7; printf '\030'; sleep 0.5; printf n; sleep 0.5) | timeout 20 script -qec "nano -I main.txt" /dev/null >/dev/null`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != "" {
				needProgram(t, c.needs)
			}
			before := d.sh("bob", "cat main.txt src/a.txt; stat -c '%a %s' main.txt")
			r := d.exec("bob", "env", "TERM=xterm", "sh", "-c", c.script)
			if !c.quiet {
				require.NotZero(t, r.code, r.String())
			}
			require.Equal(t, before, d.sh("bob", "cat main.txt src/a.txt; stat -c '%a %s' main.txt"), r.String())
			require.Empty(t, strings.TrimSpace(d.sh("bob", "ls -a | grep -E '^(sed|other|src2|main.txt.)' || true")), "leftovers")
		})
	}
	require.Contains(t, d.exec("bob", "sh", "-c", "echo x > main.txt").stderr, "busy")
	text := d.why("bob", "main.txt")
	require.Contains(t, text, "alice")
	require.Contains(t, d.must("agents", "why", "bob"), string(api.CodeFileLocked))
	require.Contains(t, d.must("events"), string(api.CodeFileLocked))
	a, _ := d.agent("bob")
	require.NotNil(t, a.Counters)
	require.Positive(t, a.Counters.LockConflicts)
	d.sh("bob", "git checkout -q HEAD -- src/b.txt src/deep") // rm -rf removed the files that no agent held
	// Bob can change files that no agent holds, with the same programs.
	d.sh("bob", "sed -i s/b/B/ src/b.txt; mv docs/guide.md docs/g2.md; echo x > main2.txt; vim -u NONE -es -c '%s/B/b/' -c 'wq!' src/b.txt </dev/null; rm docs/g2.md")
	d.heldBy("bob", "src/b.txt")
	// getfattr shows who holds a file, in any view.
	d.showsLease("bob", "main.txt", "alice")
}

// showsLease checks the attribute that names the holder, in the view of an agent that has not changed
// the file. Above a view, "a file that the agent has not changed has neither attribute" (docs/view.md).
func (d *daemon) showsLease(agent, path, want string) {
	d.t.Helper()
	if d.topMount(agent) != "overlay" {
		require.Contains(d.t, d.sh(agent, "getfattr --only-values -n user.polis.lease "+path), want)
	}
}

func TestALeaseEndsAfterTheHold(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"20s\"\nhold = \"2s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo x >> main.txt")
	began := time.Now()
	// bob's write waits in the kernel and then succeeds
	d.sh("bob", "echo y >> main.txt")
	require.Greater(t, time.Since(began), 500*time.Millisecond)
	d.heldBy("bob", "main.txt")
}

func TestIgnoredPathsTakeNoLease(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\nexempt = [\"generated/**\"]\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	for _, a := range []string{"alice", "bob"} {
		d.sh(a, "mkdir -p build generated src/node_modules/x; for f in build/out debug.log generated/api.go src/node_modules/x/index.js; do echo x > $f; done; rm -r build")
	}
	require.Empty(t, d.locks())
	// An ignore rule of a deeper level, written by the agent itself.
	d.sh("alice", "mkdir -p deep/er; echo '*.out' > deep/.gitignore; sleep 0.3; echo x > deep/er/a.out; echo x > deep/er/a.txt")
	d.heldBy("alice", "deep/.gitignore")
	d.heldBy("alice", "deep/er/a.txt") // taken after that of a.out would have been
	require.NotContains(t, d.locks(), "deep/er/a.out")
}

func TestExplicitLocks(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\n"})
	d.up()
	d.add("alice")
	d.must("lock", "main.txt", "--reason", "release")
	r := d.exec("alice", "sh", "-c", "echo x > main.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "busy")
	require.Contains(t, d.must("locks"), "release")
	d.must("unlock", "main.txt")
	d.sh("alice", "echo x > main.txt")
	d.refused(api.CodeFileLocked, "lock", "main.txt")
	d.refused(api.CodeNotLocked, "unlock", "README.md")
	d.must("unlock", "main.txt", "--break")
	require.Empty(t, d.locks())
	d.must("lock", "src", "--tree", "--agent", "alice")
	d.sh("alice", "echo x > src/a.txt")
	for _, bad := range []string{"../x", "/etc/passwd", "a/../../b"} {
		require.NotZero(t, d.ctl("lock", bad).code, bad)
	}
}

// as runs a shell script in an agent whose sandbox has polisctl.
func (d *daemon) as(agent, script string) result {
	return d.exec(agent, "sh", "-c", "PATH=/opt/polis:$PATH; "+script)
}

func TestWhatAWaiterAndAHolderSee(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"10m\"\n", mounts: fmt.Sprintf("{ source = %q, dest = \"/opt/polis\", read_only = true }", bin(t))})
	d.up()
	d.add("alice")
	d.add("bob")
	require.Equal(t, "No locks are held.\n", d.sh("alice", "cat /run/polis/locks"))
	d.sh("alice", "echo x >> main.txt")
	d.eventually("the holder's list", func() bool { return strings.Contains(d.sh("alice", "cat /run/polis/locks"), "main.txt  write, since") })

	// The loser, at the system call and after.
	r := d.as("bob", "echo y >> main.txt")
	require.Contains(t, r.stderr, "busy")
	d.why("bob", "held by:   alice")
	require.Contains(t, d.sh("bob", "cat /run/polis/why.json"), `"holder": "alice"`)
	d.showsLease("bob", "main.txt", "alice write since")

	// It waits. The holder sees the waiter and since when, in its sandbox and by an event.
	r = d.as("bob", "polisctl wait main.txt --timeout 300ms")
	require.Equal(t, 7, r.code, r.String())
	require.Contains(t, r.stderr, "alice")
	d.eventually("the wait that ended to be forgotten", func() bool {
		return !strings.Contains(d.sh("alice", "cat /run/polis/locks.json"), `"holder": "bob"`)
	})
	done := make(chan result, 1)
	go func() {
		done <- d.as("bob", "cd src && polisctl wait ../main.txt --timeout 60s && echo y >> ../main.txt")
	}()
	d.eventually("the holder to hear of the waiter", func() bool {
		return strings.Contains(d.sh("alice", "cat /run/polis/locks"), "bob waits for it since")
	})
	require.Contains(t, d.sh("alice", "cat /run/polis/locks.json"), `"holder": "bob"`)
	require.Contains(t, d.must("events"), "bob waits for main.txt, which alice has locked")
	require.Len(t, d.locks()["main.txt"].Waiting, 1)
	require.Contains(t, d.must("locks"), "bob")

	// An administrator takes the lock: it is audited, the holder is notified, and the waiter gets
	// it.
	d.must("locks", "break", "main.txt", "--reason", "bob is in a hurry")
	r = <-done
	require.Zero(t, r.code, r.String())
	d.heldBy("bob", "main.txt")
	require.Contains(t, d.must("events"), "took the lock on main.txt from alice: bob is in a hurry")
	d.eventually("the loss to be listed", func() bool {
		return strings.Contains(d.sh("alice", "cat /run/polis/locks"), "lost: main.txt at") && strings.Contains(d.sh("alice", "cat /run/polis/locks"), "bob is in a hurry")
	})
	require.Contains(t, d.as("alice", "echo z >> main.txt").stderr, "busy")
}

func TestAgentsLockByName(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"close\"\n", mounts: fmt.Sprintf("{ source = %q, dest = \"/opt/polis\", read_only = true }", bin(t))})
	d.up()
	d.add("alice", "--write", "src/**", "--read", "**")
	d.add("bob")
	require.Zero(t, d.as("alice", "polisctl lock src/a.txt --reason 'big change' --for 10m").code)
	require.Equal(t, 5, d.as("alice", "polisctl lock main.txt").code, "only what it may write")
	require.Equal(t, 5, d.as("alice", "polisctl locks break src/a.txt || polisctl unlock src/a.txt --break").code)
	require.Contains(t, d.as("alice", "polisctl locks").stdout, "big change")
	require.Contains(t, d.as("bob", "echo x > src/a.txt").stderr, "busy")
	require.Contains(t, d.as("bob", "polisctl lock src/a.txt").stderr, "polisctl wait src/a.txt")
	require.Equal(t, 3, d.as("bob", "polisctl unlock src/a.txt").code)
	d.must("lock", "README.md", "--reason", "release", "--for", "1h")
	d.must("lock", "docs", "--tree", "--agent", "bob")
	d.must("lock", "main.txt", "--read")

	// polisd dies and restarts: all locks are unchanged.
	before := d.locks()
	require.Len(t, before, 4)
	d.signal(syscall.SIGKILL)
	d.start()
	after := d.locks()
	require.Len(t, after, 4)
	for p, l := range before {
		require.Equal(t, l.Token, after[p].Token, p)
		require.Equal(t, l.Reason, after[p].Reason, p)
		require.Equal(t, l.LockType, after[p].LockType, p)
		require.Equal(t, l.Tree, after[p].Tree, p)
	}
	require.Contains(t, d.as("bob", "echo x > src/a.txt").stderr, "busy")
	require.Contains(t, d.as("bob", "echo x > README.md").stderr, "busy")
	require.Contains(t, d.as("bob", "echo x > main.txt").stderr, "busy")
	require.Zero(t, d.as("alice", "echo x > src/a.txt && polisctl unlock src/a.txt").code)
	d.eventually("the lease of what alice wrote to end: the kernel lets go of a file a moment after it was closed", func() bool {
		return d.as("bob", "echo x > src/a.txt").code == 0
	})
}

func TestHoldAndConflictByRoleAndPath(t *testing.T) {
	d := startDaemon(t, options{config: `
[locks]
on_conflict = "fail"
hold = "10m"
[[locks.rule]]
glob = "src/"
hold = "close"
[[locks.rule]]
glob = "docs/**"
hold = "merge"
[roles.patient.locks]
on_conflict = "1m"
`})
	d.up()
	d.add("alice")
	d.add("bob", "--role", "patient")
	d.sh("alice", "echo x >> src/a.txt; echo x >> main.txt; echo x >> docs/guide.md")
	d.eventually("the lease until close to end", func() bool {
		locks := d.locks() // up to 100 ms late
		return len(locks) == 2 && locks["docs/guide.md"].Hold == "merge"
	})
	done := make(chan result, 1)
	go func() { done <- d.exec("bob", "sh", "-c", "echo y >> docs/guide.md") }()
	d.eventually("bob to wait", func() bool { return len(d.locks()["docs/guide.md"].Waiters) == 1 })
	d.sh("alice", "git commit -qam one")
	d.must("agents", "stop", "alice") // what it has changed is not merged yet
	locks := d.locks()
	require.NotContains(t, locks, "main.txt")
	require.Equal(t, "alice", locks["docs/guide.md"].Holder)
	d.must("merge", "alice")
	r := <-done
	require.Zero(t, r.code, r.String())
	d.heldBy("bob", "docs/guide.md")
}

func TestALeaseLastsAsLongAsAMapping(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"close\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	done := make(chan result, 1)
	go func() {
		done <- d.exec("alice", "/usr/bin/python3", "-c", `
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
f = os.open("main.txt", os.O_RDWR)
at = libc.mmap(None, 4, 3, 1, f, 0) # Python's own mapping keeps a descriptor
assert at != ctypes.c_void_p(-1).value, ctypes.get_errno()
os.close(f)
assert not [d for d in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + d) and os.readlink("/proc/self/fd/" + d).endswith("main.txt")]
open("/tmp/mapped", "w")
while not os.path.exists("/tmp/over"): time.sleep(0.05)
ctypes.memmove(at, b"X", 1)
`)
	}()
	d.eventually("the mapping", func() bool { return d.exec("alice", "test", "-e", "/tmp/mapped").code == 0 })
	time.Sleep(time.Second) // a lease that ended with the close would be gone
	d.heldBy("alice", "main.txt")
	require.NotZero(t, d.exec("bob", "sh", "-c", "echo y >> main.txt").code)
	d.sh("alice", "touch /tmp/over")
	r := <-done
	require.Zero(t, r.code, r.String())
	d.eventually("the lease to end with the mapping", func() bool { return len(d.locks()) == 0 })
	d.sh("bob", "echo y >> main.txt")
}

// A path that the target or an agent's branch tracks takes a lease, regardless of the agent's own
// ignore rules and index. A path that no branch tracks takes none.
func TestOwnIgnoreRulesDoNotEvadeLeases(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\nhold = \"10m\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo held >> main.txt; echo new > fresh.txt; "+ident+"git add fresh.txt; git commit -qm fresh")
	d.sh("bob", `printf 'main.txt\nfresh.txt\nfree.txt\n' > "$(git rev-parse --git-path info/exclude)"; git rm -q --cached main.txt`)
	d.heldBy("alice", "main.txt")
	d.eventually("bob is refused what the target tracks", func() bool { return d.exec("bob", "sh", "-c", "echo x >> main.txt").code != 0 })
	d.eventually("and what another agent's branch tracks", func() bool { return d.exec("bob", "sh", "-c", "echo x >> fresh.txt").code != 0 })
	d.sh("bob", "git read-tree --empty; ! sh -c 'echo x >> main.txt'")
	d.sh("bob", "echo x > free.txt")
	require.NotContains(t, d.locks(), "free.txt", "what no branch tracks is still free")
}
