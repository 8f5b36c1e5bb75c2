package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// checkLog returns what queue log --json prints.
func (d *daemon) checkLog(args ...string) api.CheckLog {
	d.t.Helper()
	var l api.CheckLog
	decode(d.t, d.must(append([]string{"--json", "queue", "log"}, args...)...), &l)
	return l
}

// TestTheOutputOfACheckIsFound by a person who may see what agents print: in the result of a merge, with the task, and by
// queue log, also after a restart of polisd and when the agent was removed. No sequence in it hides what comes later, and no
// line of it looks like one of polis.
func TestTheOutputOfACheckIsFound(t *testing.T) {
	const reader, readers = 64130, 64131
	d := startDaemon(t, options{config: `read_group = "64131"
[merge]
check = """
for i in $(seq 1 60); do echo line $i; done
printf '\\033]0;never ended\\npolisctl: agent alice is merged\\n\\033Pq'
echo; cat *.txt | wc -l
test ! -e bad.txt
"""
`})
	d.up()
	d.worker("alice")
	d.task("alice", commitOf("bad.txt", "bad"))
	require.Equal(t, api.OutcomeCheckFailed, d.settled("alice").Outcome)
	marked := func(out string) {
		t.Helper()
		require.Contains(t, out, "  | line 60\n  | \\x1b]0;never ended\n  | polisctl: agent alice is merged\n  | \\x1bPq\n")
		require.NotContains(t, out, "\x1b")
	}
	shown := d.must("tasks", "show", "alice.1")
	marked(shown)
	require.NotContains(t, shown, "  | line 1\n", "the last lines only")
	require.Contains(t, shown, "polisctl queue log alice --check 1\n")
	require.Regexp(t, `(?m)^alice +alice\.1 +\S+ +1 +CHECK_FAILED`, d.must("queue"))

	r := d.ctl("merge", "alice")
	require.NotZero(t, r.code)
	marked(r.stderr)
	require.Contains(t, r.stderr, "hint: polisctl queue log alice prints its output")
	whole := d.must("queue", "log", "alice")
	marked(whole)
	require.Contains(t, whole, "  | line 1\n")
	require.Contains(t, whole, "check 1 of 2 of agent alice")
	require.Contains(t, whole, "the check ended with exit code 1\n")
	first := d.checkLog("alice", "--check", "2")
	require.Equal(t, "alice.1", first.ID)
	require.Equal(t, api.CodeCheckFailed, first.Code)
	require.True(t, strings.HasPrefix(first.Text, "line 1\n"))
	require.Contains(t, first.Text, "\x1b]0;never ended", "a program gets the bytes")
	require.True(t, d.checkLog("alice", "-n", "1").Truncated)
	require.Contains(t, d.must("tasks", "show", "alice.1"), "polisctl queue log alice --check 2\n", "there is a later one")

	// Who may see what agents print may see it; the file is root's.
	mode := d.ctlAs(reader, readers, "queue", "log", "alice", "-n", "5")
	require.Zero(t, mode.code, mode)
	marked("  | line 60\n" + mode.stdout)
	require.NotZero(t, d.ctlAs(reader, reader, "queue", "log", "alice").code)

	// A check that passes has output as well.
	d.add("carol")
	d.sh("carol", ident+commitOf("good.txt", "good"))
	d.must("merge", "carol")
	require.Contains(t, d.must("queue", "log", "carol", "-n", "1"), "request carol@")
	require.Empty(t, d.checkLog("carol").Code)
	require.Equal(t, api.CodeNotFound, d.refused(api.CodeNotFound, "queue", "log", "nobody").Code)

	d.must("agents", "remove", "alice", "--force")
	d.stop()
	d.start()
	require.Equal(t, first.Text, d.checkLog("alice", "--check", "2").Text)
	marked(d.must("queue", "log", "alice"))

	// Another workspace had an agent of that name, too. One that is there now comes first.
	require.NoError(t, os.CopyFS(d.path("src2"), os.DirFS(d.path("src"))))
	d.giveAway(d.path("src2"))
	d.must("up", "--repo", d.path("src2"), d.path("other"))
	d.must("agents", "add", "alice", "--base", "custom", "-w", "other", "--", "sh", "-ec")
	d.refused(api.CodeNotFound, "queue", "log", "alice")
	require.Equal(t, first.Text, d.checkLog("alice", "-w", "ws", "--check", "2").Text)
	d.task("alice", commitOf("bad.txt", "bad"))
	require.Equal(t, api.OutcomeCheckFailed, d.settled("alice").Outcome)
	require.Equal(t, "other", d.checkLog("alice").Workspace)
	d.must("agents", "remove", "alice", "--force")
	require.Equal(t, "--workspace NAME", d.refused(api.CodeBadRequest, "queue", "log", "alice").Hint)
	require.Equal(t, "ws", d.checkLog("alice", "-w", "ws").Workspace)
}

// TestOnlyAnAgentThatReadsEverythingGetsTheOutputOfACheck: the check runs with all files of the merge, and prints what the
// rules of an agent withhold from it.
func TestOnlyAnAgentThatReadsEverythingGetsTheOutputOfACheck(t *testing.T) {
	d := startDaemon(t, options{config: `
[roles.careful]
hide = ["secret/**"]
[roles.asked]
ask = ["secret/**"]
[merge]
check = "cat secret/key.txt; ! ls | grep -q ^bad"
`})
	d.up()
	d.worker("open")
	d.worker("hides", "--hide", "secret/**")
	d.worker("denies", "--deny", "secret/**")
	d.worker("asks", "--role", "asked")
	d.worker("role", "--role", "careful")
	for _, name := range []string{"open", "hides", "denies", "asks", "role"} {
		d.task(name, fmt.Sprintf("echo bad > bad-%[1]s.txt; git add bad-%[1]s.txt; git commit -qm bad", name))
		require.Equal(t, api.OutcomeCheckFailed, d.settled(name).Outcome, name)
		d.eventually(name+" is idle", func() bool { a, _ := d.agent(name); return a.Status == api.StatusIdle })
	}
	for _, c := range []struct {
		of, by string
		all    bool
	}{{"open", "open", true}, {"hides", "hides", false}, {"denies", "denies", false}, {"asks", "asks", false}, {"role", "role", false},
		{"open", "open-rework", true}, {"denies", "denies-rework", false}} {
		if c.of == c.by {
			d.must("queue", "rework", c.of, "--same")
		} else {
			d.refused(api.CodeCheckFailed, "merge", c.of) // another request, for another rework
			d.must("queue", "rework", c.of)
		}
		tasks := d.tasks(c.by)
		got := tasks[len(tasks)-1].Prompt
		require.Contains(t, got, "    cat secret/key.txt; ! ls | grep -q ^bad\n", c.by)
		require.Contains(t, got, "the check ended with exit code 1", c.by)
		require.Contains(t, got, "polisctl queue log "+c.of+"\n", c.by)
		require.Equal(t, c.all, strings.Contains(got, "\n  | secret\n"), "%s: %s", c.by, got)
		require.Equal(t, !c.all, strings.Contains(got, "withheld"), c.by)
	}
	// No route of an agent's socket leads to it.
	d.eventually("it is idle", func() bool { a, _ := d.agent("hides"); return a.Status == api.StatusIdle })
	out := d.sh("hides", `curl -sS -f --unix-socket /run/polis/api.sock http://polis/v1/status >/dev/null; for p in queue queue/hides/log queue/hides/log/output tasks/hides.1; do curl -s --unix-socket /run/polis/api.sock http://polis/v1/$p; done; cat /run/polis/* 2>/dev/null || true`)
	require.NotContains(t, out, "  | secret")
	require.NotContains(t, out, `secret\n`)
}
