package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func decode(t testing.TB, text string, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), v), text)
}

// why is what the agent finds in /run/polis/why; it is written a moment
// after the refusal.
func (d *daemon) why(agent, word string) string {
	d.t.Helper()
	text := ""
	d.eventually("why of "+agent+" to name "+word, func() bool {
		text = d.sh(agent, "cat /run/polis/why")
		return strings.Contains(text, word)
	})
	return text
}

// TestProgramsMeetLocks has one agent hold a file, and every kind of program
// that changes files try it in another: none knows about locks, each must
// fail, say so, and leave the file as it was.
func TestProgramsMeetLocks(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\nhold = \"10m\"\n"})
	d.up()
	d.add("alice", "--memory", "1024")
	d.add("bob", "--memory", "1024")
	d.sh("alice", "for f in main.txt src/a.txt README.md; do printf 'held\\n' >> $f; done")
	locks := d.locks()
	for _, p := range []string{"main.txt", "src/a.txt", "README.md"} {
		require.Equal(t, "alice", locks[p].Holder, p)
	}
	for _, c := range []struct {
		name, needs, script string
		// quiet programs do not end with an error, only leave the file alone
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
	d.sh("bob", "git checkout -q HEAD -- src/b.txt src/deep") // rm -rf took what nobody held
	// What nobody holds is bob's to change, with the same programs.
	d.sh("bob", "sed -i s/b/B/ src/b.txt; mv docs/guide.md docs/g2.md; echo x > main2.txt; vim -u NONE -es -c '%s/B/b/' -c 'wq!' src/b.txt </dev/null; rm docs/g2.md")
	require.Equal(t, "bob", d.locks()["src/b.txt"].Holder)
	// getfattr tells who holds a file, in any view.
	require.Contains(t, d.sh("bob", "getfattr --only-values -n user.polis.lease main.txt"), "alice")
}

func TestALeaseEndsAfterTheHold(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"20s\"\nhold = \"2s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo x >> main.txt")
	began := time.Now()
	// bob's write waits in the kernel and then goes on: no error at all.
	d.sh("bob", "echo y >> main.txt")
	require.Greater(t, time.Since(began), 500*time.Millisecond)
	require.Equal(t, "bob", d.locks()["main.txt"].Holder)
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
	locks := d.locks()
	require.Contains(t, locks, "deep/.gitignore")
	require.Contains(t, locks, "deep/er/a.txt")
	require.NotContains(t, locks, "deep/er/a.out")
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
