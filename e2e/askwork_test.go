package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// askBed is a workspace with two files that an agent of the role asks about, and the agent.
func askBed(t *testing.T) *daemon {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n[roles.worker]\nwrite = [\"**\"]\nask = [\"deploy/**\"]\n"})
	project := d.up()
	require.NoError(t, os.MkdirAll(project+"/deploy", 0o755))
	d.write("ws/project/deploy/prod.txt", secretText+"\n")
	d.write("ws/project/deploy/other.txt", "another "+secretText+"\n")
	git(t, project, "add", ".")
	git(t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "files of the rule")
	d.worker("alice", "--role", "worker", "--auto-merge=false")
	return d
}

// approved runs a script of an agent, and approves its questions, which it returns.
func (d *daemon) approved(agent, script string) (r result, questions []string) {
	d.t.Helper()
	return d.answered("approve", agent, script)
}

// answered is approved with another answer.
func (d *daemon) answered(verb, agent, script string) (r result, questions []string) {
	d.t.Helper()
	done := d.working(agent, script)
	for {
		var q *api.Approval
		d.eventually("the command ends or asks", func() bool {
			select {
			case r = <-done:
				done = nil
				return true
			default:
			}
			for _, open := range d.questions() {
				if open.Agent == agent {
					q = &open
					return true
				}
			}
			return false
		})
		if q == nil {
			return r, questions
		}
		questions = append(questions, string(q.Kind)+" "+strings.ReplaceAll(q.What, "\x00", " "))
		d.must("approvals", verb, q.ID)
	}
}

// An approved change below a path of an "ask" rule is a change for git of the agent and for polis, in each step
// up to the merge, and until then no git command returns the content of such a path without an approval.
func TestAnApprovedChangeIsAChange(t *testing.T) {
	d := askBed(t)
	status := func() string { // git reads files again that are as old as its index
		t.Helper()
		r, _ := d.approved("alice", "git status --porcelain")
		require.Zero(t, r.code, "%s", r)
		return r.stdout
	}
	require.Empty(t, status())
	for _, script := range []string{"git cat-file --batch-all-objects --batch", "cat /proc/self/cwd/.git; find / -xdev -path '*/asked/*' -type f 2>/dev/null | xargs cat"} {
		r, _ := d.answered("deny", "alice", script)
		require.NotContains(t, r.stdout+r.stderr, secretText, script)
	}
	r := d.exec("alice", "git", "show", "HEAD:deploy/prod.txt")
	require.NotZero(t, r.code, "a person's command is not asked about")
	require.NotContains(t, r.stdout+r.stderr, secretText)
	require.Contains(t, r.stderr, "polis: deploy/prod.txt needs an approval")
	asked := d.working("alice", "git show HEAD:deploy/prod.txt")
	q := d.question("alice")
	require.Equal(t, api.ApprovalRead, q.Kind)
	require.Equal(t, "deploy/prod.txt", q.What)
	d.must("approvals", "deny", q.ID)
	r = <-asked
	require.NotZero(t, r.code)
	require.NotContains(t, r.stdout+r.stderr, secretText)

	r, questions := d.approved("alice", "echo changed >> deploy/prod.txt; echo new > deploy/new.txt")
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, []string{"write deploy/prod.txt", "write deploy/new.txt"}, questions)
	require.Equal(t, " M deploy/prod.txt\n?? deploy/new.txt\n", status())
	e := d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.Contains(t, e.Message, "2 changed files")

	r, questions = d.approved("alice", ident+"git add -A && git commit -qm approved")
	require.Zero(t, r.code, "%s", r)
	slices.Sort(questions) // git compares files again that are as old as its index
	require.Equal(t, []string{"read deploy/new.txt", "read deploy/prod.txt"}, slices.Compact(questions))
	r, _ = d.approved("alice", "git status --porcelain")
	require.Empty(t, r.stdout)
	require.Equal(t, "A\tdeploy/new.txt\nM\tdeploy/prod.txt\n", d.sh("alice", "git show --format= --name-status HEAD"))
	r, questions = d.approved("alice", "git diff HEAD~1 -- deploy/prod.txt")
	require.Equal(t, []string{"read deploy/prod.txt"}, questions)
	require.Contains(t, r.stdout, "+changed", "%s", r)
	r, questions = d.approved("alice", "git show HEAD")
	require.Empty(t, questions, "what was approved is there")
	require.Contains(t, r.stdout, "+changed", "%s", r)
	r, _ = d.answered("deny", "alice", "git cat-file --batch-all-objects --batch")
	require.NotContains(t, r.stdout, "another "+secretText)

	d.must("merge", "alice")
	require.Contains(t, git(t, d.bare(), "show", "main:deploy/prod.txt"), "changed\n")
	d.must("agents", "remove", "alice")

	// What no person has approved still needs one: another file, and another content that git has put there.
	d.worker("bob", "--role", "worker", "--auto-merge=false")
	r, _ = d.approved("bob", ident+"echo approved > deploy/prod.txt; id=$(echo forged | git hash-object -w --stdin); git update-index --cacheinfo 100644,$id,deploy/prod.txt; git commit -qm forged")
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, d.refused(api.CodeProtectedPath, "merge", "bob").Message, "deploy/prod.txt")
}

// TestAnApprovedChangeIsNotReadAgainInTheNextTask: git reads a file in each command that is as new as its index. A time to
// come does what a change and its commit in one second do.
func TestAnApprovedChangeIsNotReadAgainInTheNextTask(t *testing.T) {
	d := askBed(t)
	times := func() (file, index int64) {
		t.Helper()
		_, err := fmt.Sscan(d.sh("alice", `stat -c %Y deploy/prod.txt "$(git rev-parse --git-path index)"`), &file, &index)
		require.NoError(t, err)
		return file, index
	}
	// change leaves the file as new as the index, until the file's time has come.
	change := func() {
		t.Helper()
		r, questions := d.approved("alice", ident+"echo $$ >> deploy/prod.txt; touch -d @$(($(date +%s) + 10)) deploy/prod.txt; git commit -qam approved")
		require.Zero(t, r.code, "%s", r)
		require.NotEmpty(t, questions)
		file, index := times()
		require.GreaterOrEqual(t, file, index)
		d.eventually("its time has come", func() bool { return time.Now().Unix() > file })
	}
	change()
	for range 2 {
		r, questions := d.approved("alice", "git status --porcelain")
		require.Zero(t, r.code, "%s", r)
		require.Empty(t, questions)
		require.Empty(t, r.stdout)
	}

	// Git may be at work, or the index be none of git's: that is the agent's, and the task begins.
	change()
	writes := d.asking("alice", `lock="$(git rev-parse --git-path index.lock)"; echo mine > "$lock"; while test -e "$lock"; do sleep 0.1; done`)
	d.eventually("git is at work", func() bool {
		return d.exec("alice", "sh", "-c", `grep mine "$(git rev-parse --git-path index.lock)"`).code == 0
	})
	r, _ := d.approved("alice", "true")
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, "mine\n", d.sh("alice", `cat "$(git rev-parse --git-path index.lock)"`))
	file, index := times()
	require.GreaterOrEqual(t, file, index, "nobody else has written the index meanwhile")
	d.sh("alice", `rm "$(git rev-parse --git-path index.lock)"`)
	<-writes
	for _, hostile := range []string{"echo DIRC > index", "rm index"} {
		d.sh("alice", `cd "$(git rev-parse --git-dir)"; `+hostile)
		r, _ = d.approved("alice", "true")
		require.Zero(t, r.code, "%s: %s", hostile, r)
	}
}

// Nothing of it is lost when the agent is removed.
func TestAnApprovedChangeIsSaved(t *testing.T) {
	d := askBed(t)
	r, _ := d.approved("alice", "echo changed >> deploy/prod.txt; rm deploy/other.txt; echo new > deploy/new.txt; git update-index --skip-worktree deploy/prod.txt")
	require.Zero(t, r.code, "%s", r)
	d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.Contains(t, d.must("agents", "diff", "alice"), "+changed")
	d.must("discard", "alice", "--yes")
	d.must("restore", "alice")
	r, _ = d.approved("alice", "git status --porcelain")
	require.Equal(t, " D deploy/other.txt\n M deploy/prod.txt\n?? deploy/new.txt\n", r.stdout)
}

// TestAFileThatIsWrittenAsideIsOneQuestion: its temporary name and the rename are part of it.
func TestAFileThatIsWrittenAsideIsOneQuestion(t *testing.T) {
	d := askBed(t)
	r, questions := d.approved("alice", `python3 -c 'import os
new = "deploy/prod.txt.tmp.%d.0123456789ab" % os.getpid()
with open(new, "w") as f: f.write("changed\n")
os.rename(new, "deploy/prod.txt")'`)
	require.Zero(t, r.code, "%s", r)
	require.Equal(t, []string{"write deploy/prod.txt"}, questions)
	require.Contains(t, d.must("agents", "diff", "alice"), "+changed")
}

// TestOneAgentIsGivenPathsToAskFor: without a role, and while it works.
func TestOneAgentIsGivenPathsToAskFor(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice", "--ask", "README.md", "--ask", "docs/**")
	d.worker("bob")
	write := func(agent, path string) []string {
		r, questions := d.approved(agent, "echo approved >> "+path)
		require.Zero(t, r.code, "%s", r)
		return questions
	}
	require.Equal(t, []string{"write README.md"}, write("alice", "README.md"))
	require.Empty(t, write("alice", "main.txt"), "an agent that has only such rules may do everything else")
	require.Empty(t, write("bob", "docs/guide.md"))

	d.must("agents", "set", "bob", "--ask", "main.txt")
	d.must("agents", "set", "bob", "--ask", "run.sh")
	require.Equal(t, []string{"write run.sh"}, write("bob", "run.sh"))
	d.must("agents", "set", "bob", "--ask", "none", "--ask", "README.md")
	require.Empty(t, write("bob", "src/a.txt"))
	require.JSONEq(t, `{"ask": ["README.md"]}`, d.must("agents", "policy", "bob", "--json"))
	require.Contains(t, d.refused(api.CodeBadRequest, "agents", "set", "bob", "--ask", "").Message, "ask")
}
