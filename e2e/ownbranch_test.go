package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// ranTask has an agent run a task to its end, and returns its record and the result of polisctl.
func (d *daemon) ranTask(name, script string) (api.Task, result) {
	d.t.Helper()
	r := d.ctl("--json", "run", "--wait", name, ident+script)
	var t api.Task
	require.NoError(d.t, json.Unmarshal([]byte(r.stdout), &t), r.String())
	return t, r
}

// inTarget returns the files of the target branch.
func (d *daemon) inTarget() string {
	d.t.Helper()
	return git(d.t, d.bare(), "ls-tree", "-r", "--name-only", "main")
}

// runHint runs a command that polisctl printed.
func (d *daemon) runHint(hint string) {
	d.t.Helper()
	for command := range strings.SplitSeq(hint, " && ") {
		words := strings.Fields(command)
		require.Equal(d.t, "polisctl", words[0], hint)
		d.must(words[1:]...)
	}
}

// TestABranchOfTheAgentsOwnIsMerged: a program makes a branch for its work, as many do, or leaves HEAD detached.
func TestABranchOfTheAgentsOwnIsMerged(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for name, switched := range map[string]string{
		"named":    "git checkout -q -b fix/login; ",
		"detached": "git checkout -q --detach; ",
		"renamed":  "git branch -q -m fix/renamed; ",
	} {
		t.Run(name, func(t *testing.T) {
			d.worker(name)
			ended, r := d.ranTask(name, switched+commitOf(name+".txt", "x"))
			require.Zero(t, r.code, r.String())
			require.Equal(t, api.OutcomeMerged, ended.Outcome, ended.Result)
			require.Empty(t, ended.Elsewhere)
			require.Contains(t, d.inTarget(), name+".txt")
			d.must("agents", "remove", name)
		})
	}
}

// TestCommitsOnAnotherBranchAreNamed: a merge takes one branch, and what is on another is named with the command
// that merges it.
func TestCommitsOnAnotherBranchAreNamed(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for name, c := range map[string]struct {
		script string
		merged bool
		where  string
	}{
		"left":     {script: "git checkout -q -b fix/left; " + commitOf("left.txt", "x") + "; git checkout -q agent/left", where: "fix/left"},
		"half":     {script: commitOf("first.txt", "x") + "; git checkout -q -b fix/half HEAD~1; " + commitOf("half.txt", "y"), merged: true, where: "fix/half"},
		"apart":    {script: commitOf("one.txt", "x") + "; git checkout -q --detach HEAD~1; " + commitOf("apart.txt", "y"), merged: true, where: "a detached HEAD"},
		"quoted":   {script: "git checkout -q -b 'fix/a$b;c'; " + commitOf("quoted.txt", "x") + "; git checkout -q agent/quoted", where: "fix/a$b;c"},
		"stranded": {script: "git checkout -q -b fix/stranded; " + commitOf("stranded.txt", "x") + "; git checkout -q agent/stranded; polisctl done >~/said 2>&1; sleep 0.2", where: "fix/stranded"},
	} {
		t.Run(name, func(t *testing.T) {
			d.worker(name)
			ended, r := d.ranTask(name, c.script)
			require.Equal(t, c.merged, ended.Outcome == api.OutcomeMerged, ended.Result)
			require.Equal(t, c.merged, r.code == 0, "nothing was merged, which is no success: %s", r)
			require.Len(t, ended.Elsewhere, 1)
			e := ended.Elsewhere[0]
			require.Equal(t, 1, e.Commits)
			require.Equal(t, c.where, e.Where())
			require.Contains(t, ended.Result, "1 commit on "+c.where+" not merged: "+e.Run)
			require.Contains(t, d.must("agents", "list"), name+": 1 commit on "+c.where+" not merged: "+e.Run)
			refused := d.refused(api.CodeUnsavedWork, "agents", "remove", name)
			require.Contains(t, refused.Message, "1 commit on "+c.where)
			require.Contains(t, refused.Hint, e.Run)
			if !c.merged {
				refused = d.refused(api.CodeNothingToMerge, "merge", name)
				require.Contains(t, refused.Message, "1 commit is on "+c.where)
				require.Equal(t, e.Run, refused.Hint)
			}
			if name == "stranded" {
				require.Contains(t, d.sh(name, "cat ~/said"), "1 commit on fix/stranded not merged: git merge --no-edit fix/stranded")
			}
			if name == "quoted" {
				require.Contains(t, e.Run, `'fix/a$b;c'`)
				return
			}
			if name == "left" { // with changes in no commit, the hint commits them, too
				d.sh(name, "echo x >change.txt")
				refused = d.refused(api.CodeUnsavedWork, "agents", "remove", name)
			}
			run, _, _ := strings.Cut(strings.Replace(refused.Hint, " brings the commits home", "", 1), "; ")
			d.runHint(run)
			require.Contains(t, d.inTarget(), name+".txt")
			require.NotContains(t, d.must("agents", "list"), name+": ", "the record of the task says that it is merged")
			d.must("agents", "remove", name)
		})
	}
}

// TestAnotherAgentsWorkIsNotMergedWithABranch: a HEAD at a commit of another agent is no work of the agent.
func TestAnotherAgentsWorkIsNotMergedWithABranch(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("other")
	d.sh("other", ident+commitOf("other.txt", "x"))
	for name, script := range map[string]string{
		"looks":  "git checkout -q --detach agent/other",
		"branch": "git checkout -q -b mine agent/other",
		"head":   "echo 'ref: refs/heads/agent/other' >\"$(git rev-parse --git-dir)/HEAD\"; true",
	} {
		d.worker(name)
		ended, r := d.ranTask(name, script)
		require.Zero(t, r.code&^1, r.String())
		require.NotEqual(t, api.OutcomeMerged, ended.Outcome, name)
		require.NotContains(t, d.inTarget(), "other.txt", name)
	}
	// Nor are withheld files published with a detached HEAD.
	d.worker("blind", "--deny", "secret/**")
	ended, r := d.ranTask("blind", "git checkout -q --detach; "+commitOf("blind.txt", "x"))
	require.NotZero(t, r.code)
	require.Len(t, ended.Elsewhere, 1)
	d.runHint(ended.Elsewhere[0].Run)
	require.Contains(t, d.inTarget(), "blind.txt")
}
