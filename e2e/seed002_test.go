package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// The proof targets of seed 002, with the built programs: what an agent's programs get from the kernel, and
// what the API answers. docs/security.md lists all claims with their tests.

const seedRole = "[roles.declared]\nread = [\"/main.txt\", \"/src\"]\nwrite = [\"/docs\"]\ntemp = true\n"

// fails runs a script in an agent, which must end with this message.
func (d *daemon) fails(agent, script, message string) {
	d.t.Helper()
	r := d.exec(agent, "env", "LC_ALL=C", "sh", "-ec", script)
	require.NotZero(d.t, r.code, "%s: %s", script, r)
	require.Contains(d.t, r.stderr, message, script)
}

func TestSeed002_Pi1_UndeclaredReadsFail(t *testing.T) {
	d := startDaemon(t, options{config: seedRole})
	d.up()
	d.add("alice", "--role", "declared")
	d.sh("alice", "cat main.txt src/a.txt src/deep/er/c.txt docs/guide.md")
	for _, path := range []string{"README.md", "secret/key.txt", "run.sh"} {
		for _, how := range []string{"cat %s", "cp %s docs/copy", "ln -s ../%s docs/l; cat docs/l", "ln %s docs/l2", "dd if=%s", "cat $PWD/%s", "cat src/../%s"} {
			d.fails("alice", fmt.Sprintf(how, path), "Permission denied")
		}
		d.sh("alice", "rm -f docs/l docs/copy")
	}
	// Nor do the objects of git have the content.
	d.fails("alice", "git cat-file -p HEAD:secret/key.txt", "")
	require.Contains(t, d.must("agents", "why", "alice"), string(api.CodeUndeclaredRead))
}

// TestADenialByRuleIsDistinctFromAMissingPermission in what people and agents see. The code is the same.
func TestADenialByRuleIsDistinctFromAMissingPermission(t *testing.T) {
	const role = "[roles.some]\nread = [\"src/**\", \"docs/**\", \"secret/**\"]\nwrite = [\"docs/**\", \"secret/**\"]\ndeny = [\"secret/**\"]\n"
	d := startDaemon(t, options{config: role})
	d.up()
	d.add("alice", "--role", "some")
	d.fails("alice", "cat secret/key.txt", "Permission denied")
	d.fails("alice", "echo x >> secret/key.txt", "Permission denied")
	d.fails("alice", "cat main.txt", "Permission denied")
	d.fails("alice", "echo x >> src/a.txt", "Permission denied")
	rule := `deny "secret/**"`
	want := map[string]string{"open of secret/key.txt": "DENIED_READ: " + rule, "open-write of secret/key.txt": "DENIED_WRITE: " + rule,
		"open of main.txt": "UNDECLARED_READ", "open-write of src/a.txt": "UNDECLARED_WRITE"}
	why := d.must("agents", "why", "alice")
	inside := d.sh("alice", "cat /run/polis/why")
	for what, name := range want {
		name, because, denied := strings.Cut(name, ": ")
		require.Contains(t, why, strings.Replace(what, " of ", " ", 1)+": "+name+" (EACCES)")
		require.Contains(t, inside, what+" was refused: "+name+" (EACCES)")
		if denied {
			require.Contains(t, why, "  because: "+because)
			require.Contains(t, inside, "  because:   "+because)
			require.Contains(t, why, "a rule of your policy denies")
		}
		d.eventually("the event of "+what, func() bool { return strings.Contains(d.must("events"), what+" was refused ("+want[what]+")") })
	}
	var out struct {
		Why []api.WhyEntry `json:"why"`
	}
	decode(t, d.must("--json", "agents", "why", "alice"), &out)
	for _, w := range out.Why {
		code := api.CodeUndeclaredRead
		if strings.Contains(w.Op, "write") {
			code = api.CodeUndeclaredWrite
		}
		require.Equal(t, code, w.Code, "the code is stable")
		if w.Path == "secret/key.txt" {
			require.Equal(t, rule, w.Rule)
			require.Equal(t, strings.Replace(string(code), "UNDECLARED", "DENIED", 1), w.Shown)
		} else {
			require.Empty(t, w.Shown)
		}
	}
	require.Len(t, out.Why, 4)
}

func TestSeed002_Pi2_UndeclaredWritesFail(t *testing.T) {
	d := startDaemon(t, options{config: seedRole})
	project := d.up()
	d.add("alice", "--role", "declared")
	d.sh("alice", "echo x >> docs/guide.md; echo x > docs/new; mkdir docs/dir")
	for _, script := range []string{"echo x >> main.txt", "echo x > src/a.txt", "echo x > new.txt", "rm src/b.txt", "mv docs/new src/new", "mv src/a.txt docs/a", "mkdir dir",
		"ln docs/new src/link", "ln -s x src/link", "truncate -s 0 main.txt", "touch src/a.txt", "echo x > .new.swp"} {
		d.fails("alice", script, "Permission denied")
	}
	// temp/* is the scratch directory, outside of the tree.
	d.sh("alice", `echo x > "$TMPDIR/scratch"; cat "$TMPDIR/scratch"; test ! -e temp`)
	require.Contains(t, d.must("agents", "why", "alice"), string(api.CodeUndeclaredWrite))
	require.Equal(t, "one\ntwo\nthree\n", readFile(project+"/main.txt"))
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat main.txt"))
}

func TestSeed002_Pi3_PathTraversalBlocked(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("bob", "echo private > bobs.txt")
	a, _ := d.agent("alice")
	b, _ := d.agent("bob")
	// At the call: ".." and absolute paths lead to the sandbox's own tree, which has nothing of others.
	for _, path := range []string{"../bob/bobs.txt", "src/../../bob/bobs.txt", b.WorktreePath + "/bobs.txt", "../../state.json", a.WorktreePath + "/../../state.json", "/proc/1/root" + b.WorktreePath + "/bobs.txt"} {
		d.fails("alice", "cat "+path, path)
		d.fails("alice", "ln -s "+path+" link; cat link || { rm link; exit 1; }", "link")
	}
	d.fails("alice", "echo x >> "+b.WorktreePath+"/bobs.txt", "")
	d.sh("alice", `echo x > a..b; cat a..b; test -z "$(cat ../../../../../../../etc/shadow 2>/dev/null)"`)
	// At the API: refused before anything is opened.
	for _, path := range []string{"../x", "/etc/passwd", "a/../../x", "a/../b"} {
		for _, args := range [][]string{{"lock", "alice", path}, {"agents", "add", "carol", "--base", "custom", "--read", path + "/../..", "--", "sh"}} {
			require.NotZero(t, d.ctl(args...).code, "%v", args)
		}
	}
	for _, id := range []string{"..", "../../state.json", "a%00b"} {
		require.NotZero(t, d.ctl("snapshot", "show", id).code)
		require.NotZero(t, d.ctl("agents", "diff", id).code)
	}
	require.Equal(t, "private\n", d.sh("bob", "cat bobs.txt"))
}

func TestSeed002_Pi4_IsolationOverheadBelow10ms(t *testing.T) {
	d := startDaemon(t, options{config: seedRole})
	d.up()
	d.add("alice", "--role", "declared")
	var c api.Counters
	for range 5 { // a machine under load gets more attempts
		d.sh("alice", "for i in $(seq 100); do cat main.txt >/dev/null; echo $i > docs/guide.md; done")
		var a api.Agent
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "metrics", "alice")), &a))
		c = *a.Counters
		require.GreaterOrEqual(t, c.WriteCount, int64(100))
		if max(c.AvgReadLatency, c.AvgWriteLatency) < int64(10*time.Millisecond) {
			return
		}
	}
	t.Fatalf("the averages are %s and %s", time.Duration(c.AvgReadLatency), time.Duration(c.AvgWriteLatency))
}

func TestSeed002_Pi5_SnapshotsAreDeterministic(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nexempt = [\"**\"]\n"}) // both change the same files
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo 1 > one; mkdir d; echo 2 > d/two; rm src/a.txt")
	d.sh("bob", "rm src/a.txt; mkdir d; echo 2 > d/two; echo 1 > one; touch -d 2001-02-03 one")
	first := d.snapshot("alice")
	require.Equal(t, first.Hash, d.snapshot("alice").Hash)
	require.Equal(t, first.Hash, d.snapshot("bob").Hash)
	require.Equal(t, strings.TrimSpace(d.sh("alice", seedHash)), first.Hash)
	d.sh("bob", "echo 3 > d/two")
	require.NotEqual(t, first.Hash, d.snapshot("bob").Hash)
}

// TestSeed002_Pi6_ConcurrentAccessIsSafe: programs of two agents read and write, while the rules of one are
// replaced and its snapshots made.
func TestSeed002_Pi6_ConcurrentAccessIsSafe(t *testing.T) {
	d := startDaemon(t, options{config: seedRole})
	d.up()
	d.add("alice", "--role", "declared")
	d.add("bob", "--role", "declared")
	var wg sync.WaitGroup
	for _, agent := range []string{"alice", "bob"} {
		for i := range 2 {
			wg.Go(func() {
				r := d.exec(agent, "sh", "-c", fmt.Sprintf(`for i in $(seq 60); do
					echo $i > docs/%[1]s.%[2]d || exit 1; test "$(cat docs/%[1]s.%[2]d)" = $i || exit 2; cat src/a.txt >/dev/null || exit 3
					! cat secret/key.txt 2>/dev/null || exit 4; ! sh -c 'echo x >> main.txt' 2>/dev/null || exit 5; done`, agent, i))
				if r.code != 0 {
					t.Errorf("%s: %s", agent, r)
				}
			})
		}
	}
	for i := range 5 {
		d.must("agents", "set", "alice", "--read", fmt.Sprintf("extra%d/**", i))
		d.snapshot("alice")
	}
	wg.Wait()
}
