package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A change that leaves a file as it was takes no lock that outlasts it; any other does.
func TestAChangeOfNothingLocksNothing(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]string{"private": "", "shared": "[workspace]\nworktree = \"shared\"\n", "above": "[workspace]\nworktree = \"shared\"\nlayers = \"auto\"\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"10m\"\n" + order})
			d.up()
			d.add("alice")
			d.add("bob")
			held := func() []string {
				var paths []string
				for _, l := range d.locks() {
					paths = append(paths, l.Holder+" "+l.Path)
				}
				return paths
			}
			for what, script := range map[string]string{
				"equal content":          `cp main.txt /tmp/same; cat /tmp/same > main.txt`,
				"equal content in place": `cp main.txt /tmp/same; dd if=/tmp/same of=main.txt conv=notrunc status=none`,
				"touch":                  `touch main.txt`,
				"its own mode":           `chmod $(stat -c %a main.txt) main.txt`,
				"open without a write":   `: >> main.txt; python3 -c 'open("main.txt", "r+").close()'`,
				"replaced by an equal":   `sed -i s/absent/x/ main.txt`,
				"mapped":                 `python3 -c 'import mmap; f = open("main.txt", "r+"); m = mmap.mmap(f.fileno(), 0); f.close(); m.close()'`,
			} {
				d.sh("alice", script)
				require.Eventually(t, func() bool { return len(held()) == 0 }, 30*time.Second, 10*time.Millisecond, "%s: %v", what, held())
				d.sh("bob", "echo bob >> main.txt")
				require.Equal(t, []string{"bob main.txt"}, held(), what)
				r := d.exec("alice", "sh", "-c", "echo alice >> main.txt")
				require.NotZero(t, r.code, what)
				d.sh("bob", "git checkout -q main.txt")
				d.ctl("locks", "break", "main.txt") // unless it has ended: the checkout brought the content back
				require.Empty(t, held(), what)
			}
			// An open handle and a mapping keep the lock, whatever they have written so far.
			for _, script := range []string{
				`python3 -c 'import time; f = open("main.txt", "r+"); time.sleep(2)' & sleep 1; cat main.txt >/dev/null`,
				`python3 -c 'import mmap, time; f = open("main.txt", "r+"); m = mmap.mmap(f.fileno(), 0); f.close(); time.sleep(2); m[0:1] = b"O"; m.close()' & sleep 1`,
			} {
				d.sh("alice", "("+script+") >/dev/null 2>&1 </dev/null")
				r := d.exec("bob", "sh", "-c", "echo bob >> main.txt")
				require.NotZero(t, r.code, script)
				d.sh("alice", "sleep 2")
			}
			require.Equal(t, []string{"alice main.txt"}, held(), "the mapping has changed it")
			require.True(t, strings.HasPrefix(d.sh("alice", "cat main.txt"), "O"))
		})
	}
}

// The refusal of a locked file says how long the lock is held, and what the agent can do: wait.
func TestARefusalSaysHowLongALockIsHeld(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\nhold = \"10m\"\n\n[[locks.rule]]\nglob = \"src/a.txt\"\nhold = \"merge\"\n",
		mounts: fmt.Sprintf("{ source = %q, dest = \"/opt/polis\", read_only = true }", bin(t))})
	d.up()
	d.add("alice")
	d.add("bob")
	hint := func(path string) string {
		t.Helper()
		require.NotZero(t, d.exec("bob", "sh", "-c", "echo bob >> "+path).code)
		var why []api.WhyEntry
		require.NoError(t, json.Unmarshal([]byte(d.sh("bob", "cat /run/polis/why.json")), &why))
		require.Equal(t, api.CodeFileLocked, why[0].Code)
		require.Contains(t, d.must("agents", "why", "bob"), why[0].Hint)
		return why[0].Hint
	}
	d.sh("alice", "echo alice >> main.txt; echo alice >> src/a.txt")
	text := hint("main.txt")
	for _, part := range []string{"holds it until 10m0s after the last change (locks.hold)", "polisctl wait main.txt", "locks.exempt"} {
		require.Contains(t, text, part)
	}
	require.Contains(t, hint("src/a.txt"), "until that work is merged")
	require.Equal(t, 7, d.exec("bob", "/opt/polis/polisctl", "wait", "main.txt", "--timeout", "1s").code)
	d.must("locks", "break", "main.txt")
	d.sh("bob", "/opt/polis/polisctl wait main.txt --timeout 10s && echo bob >> main.txt")
	d.must("lock", "README.md", "--for", "1h")
	require.Regexp(t, `the administrator has locked it until 20[-0-9T:]+Z; .* polisctl wait README.md`, hint("README.md"))
	d.must("unlock", "README.md")
	d.sh("bob", "/opt/polis/polisctl wait README.md --timeout 10s && echo bob >> README.md")
}
