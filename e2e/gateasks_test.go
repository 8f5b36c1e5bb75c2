package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// killed kills a command in an agent once its question is open, which withdraws the question.
func (d *daemon) killed(agent, command string) api.Approval {
	d.t.Helper()
	asked := d.asking(agent, "timeout 300 "+command+" & echo $! > $HOME/asker; wait")
	q := d.question(agent)
	d.sh(agent, "kill $(cat $HOME/asker)")
	<-asked
	d.eventually("the question is withdrawn", func() bool { return len(d.questions()) == 0 })
	d.refused(api.CodeNotFound, "approvals", "approve", q.ID)
	return q
}

// TestAPushWaitsForItsApproval, whichever program pushes. A fetch needs none.
func TestAPushWaitsForItsApproval(t *testing.T) {
	d := startDaemon(t, options{config: "[git]\nremote = \"push\"\nask = [\"push\"]\n[git.agents.carol]\nask = [\"fetch\"]\n"})
	src := d.smallRepo()
	require.NoError(t, chownAll(src, 0))
	bare := d.path("backup.git")
	git(t, d.dir, "clone", "-q", "--bare", src, bare)
	require.NoError(t, chownAll(bare, owner))
	git(t, src, "remote", "add", "origin", bare)
	require.NoError(t, chownAll(src, owner))
	d.must("up", "--repo", src, d.path("ws"))
	d.add("alice")
	d.add("carol")

	d.sh("alice", ident+"git fetch -q origin; echo a > a.txt; git add -A; git commit -qm a")
	asked := d.asking("alice", "git push origin HEAD 2>&1")
	q := d.question("alice")
	require.Equal(t, api.ApprovalGit, q.Kind)
	require.Equal(t, "push origin agent/alice", q.What)
	require.Contains(t, q.Detail, d.sh("alice", "git rev-parse HEAD")[:40])
	require.Contains(t, q.Note, bare)
	require.NotContains(t, git(t, bare, "branch"), "agent/alice", "nothing is sent before the answer")
	d.must("approvals", "approve", q.ID)
	r := <-asked
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "this needs an approval: push origin agent/alice")
	require.Equal(t, d.sh("alice", "git rev-parse HEAD"), git(t, bare, "rev-parse", "agent/alice"))

	// Denied: git fails with the reason, and so does why.
	sent := git(t, bare, "rev-parse", "agent/alice")
	d.sh("alice", ident+"git commit -q --allow-empty -m b")
	asked = d.asking("alice", "git push origin HEAD 2>&1; echo; cat /run/polis/why")
	d.must("approvals", "deny", d.question("alice").ID, "not on a Friday")
	r = <-asked
	require.Contains(t, r.stdout, "git push origin agent/alice is denied: not on a Friday")
	require.Contains(t, r.stdout, "NOT_APPROVED")
	require.Equal(t, "root", d.deniedBy("alice", "root denied push origin agent/alice: not on a Friday").By)
	require.Equal(t, sent, git(t, bare, "rev-parse", "agent/alice"))

	// An answer is remembered for these refs, with any commit. A forced push is another question.
	asked = d.asking("alice", "git push origin HEAD 2>&1")
	d.must("approvals", "approve", d.question("alice").ID, "--for", "agent")
	require.Zero(t, (<-asked).code)
	d.sh("alice", ident+"git commit -q --allow-empty -m c; git push -q origin HEAD")
	require.Contains(t, d.must("approvals", "rules"), "git(push origin agent/alice)")
	asked = d.asking("alice", ident+"git commit -q --allow-empty --amend -m d; git push -f origin HEAD 2>&1")
	q = d.question("alice")
	require.Equal(t, "push origin +agent/alice", q.What)
	d.must("approvals", "deny", q.ID)
	require.NotZero(t, (<-asked).code)

	// A push that is refused anyway asks nothing, and a process that dies while it waits leaves no
	// question.
	require.Contains(t, d.exec("alice", "git", "push", "origin", "HEAD:main").stderr, "polisctl merge alice")
	require.Equal(t, "fetch origin", d.killed("carol", "git fetch origin").What)

	// A request that does not come from git's helper meets the same gate. An approval that the
	// request itself claims has no effect.
	asked = d.asking("carol", `curl -sS --max-time 20 --unix-socket /run/polis/api.sock -H 'Polis-Approved: x' -d '{"op":"fetch","remote":"origin"}' http://polis/v1/remote`)
	d.must("approvals", "deny", d.question("carol").ID)
	require.Contains(t, (<-asked).stdout, "NOT_APPROVED")
}

// TestALockOfADirectoryWaitsForItsApproval. A lock of a file does not wait, and a denied lock is
// not taken.
func TestALockOfADirectoryWaitsForItsApproval(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\ntrees = \"ask\"\nhold = \"close\"\non_conflict = \"fail\"\n[roles.strict.locks]\ntrees = \"deny\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.add("carol", "--role", "strict")
	d.sh("alice", "mkdir -p docs; polisctl lock main.txt && polisctl unlock main.txt")

	asked := d.asking("alice", "polisctl lock --tree docs --reason 'a move'")
	q := d.question("alice")
	require.Equal(t, api.ApprovalLock, q.Kind)
	require.Equal(t, "write docs/", q.What)
	require.Equal(t, "a move", q.Detail)
	require.Equal(t, "polisctl", q.Program)
	d.sh("bob", "mkdir -p docs && echo free > docs/b.txt && rm docs/b.txt")
	d.must("approvals", "deny", q.ID, "others work there")
	r := <-asked
	require.Equal(t, 5, r.code, "%s", r)
	require.Contains(t, r.stderr, "lock write docs/ is denied: others work there")
	require.Contains(t, d.sh("alice", "cat /run/polis/why"), "others work there")
	d.deniedBy("alice", "root denied write docs/: others work there")
	require.NotContains(t, d.must("locks"), "alice")

	asked = d.asking("alice", "polisctl lock --tree docs --wait 60s")
	d.must("approvals", "approve", d.question("alice").ID, "--for", "agent")
	r = <-asked
	require.Zero(t, r.code, "%s", r)
	require.NotZero(t, d.exec("bob", "sh", "-c", "echo no > docs/c.txt").code)
	d.sh("alice", "polisctl unlock docs && polisctl lock --tree docs")
	asked = d.asking("alice", "polisctl lock --tree --read docs")
	q = d.question("alice")
	require.Equal(t, "read docs/", q.What, "an answer about writing is not one about reading")
	d.must("approvals", "deny", q.ID)
	require.Equal(t, 5, (<-asked).code)

	e := d.exec("carol", "polisctl", "lock", "--tree", "docs")
	require.NotZero(t, e.code)
	require.Contains(t, e.stderr, `locks.trees is "deny" for it`)
}
