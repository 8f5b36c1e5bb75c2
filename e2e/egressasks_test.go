package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAConnectionWaitsForItsApproval: the name is resolved at once, the first packet of the
// connection stays in the kernel until the answer.
func TestAConnectionWaitsForItsApproval(t *testing.T) {
	world := newInternet(t)
	world.name("free.test", "203.0.113.1")
	world.name("docs.test", "203.0.113.2")
	world.name("evil.test", "203.0.113.3")
	world.name("gone.test", "203.0.113.3")
	d := world.startBehind("egress = [\"free.test\", \"ask\"]\n", "[roles.few.network]\negress = [\"ask:docs.test\"]\n")
	d.up()
	a := d.add("curious")
	require.Equal(t, []string{"free.test", "ask"}, a.Egress)
	d.gets("curious", "free.test", "internet 203.0.113.1")
	require.Empty(t, d.questions())

	// Approved: the waiting connection is made. Later ones need no question.
	asked := d.asking("curious", "curl -sS --max-time 100 http://docs.test/")
	q := d.question("curious")
	require.Equal(t, api.ApprovalEgress, q.Kind)
	require.Equal(t, "docs.test", q.What)
	require.Equal(t, "tcp connection to 203.0.113.2:80", q.Note)
	require.Equal(t, "curl", q.Program)
	require.Contains(t, d.must("agents", "list", "--waiting"), "egress docs.test")
	d.gets("curious", "free.test", "internet 203.0.113.1")
	d.must("approvals", "approve", q.ID)
	r := <-asked
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "internet 203.0.113.2")
	d.gets("curious", "docs.test", "internet 203.0.113.2")
	require.Empty(t, d.questions())

	// Denied: the connection is refused at once, with the reason. For a while later ones are
	// refused without a question.
	asked = d.asking("curious", "curl -sS --max-time 100 http://evil.test/; cat /run/polis/why")
	d.must("approvals", "deny", d.question("curious").ID, "read the mirror instead")
	r = <-asked
	require.Contains(t, r.stderr, "onnect to evil.test")
	require.Contains(t, r.stdout, "read the mirror instead")
	require.Equal(t, api.CodeNotApproved, d.refusalOf("curious", "203.0.113.3:80 (evil.test)").Code)
	d.noGet("curious", "evil.test", notReached)
	require.Empty(t, d.questions())

	// A connection to an address without a name asks about the address. One to an address that is
	// never reachable asks nothing.
	asked = d.asking("curious", "curl -sS --max-time 100 http://198.51.100.1/")
	q = d.question("curious")
	require.Equal(t, "198.51.100.1", q.What)
	d.must("approvals", "approve", q.ID)
	require.Zero(t, (<-asked).code)
	for _, addr := range []string{"169.254.169.254", "10.1.2.3"} {
		d.noGet("curious", addr, notReached)
	}

	// A program that gives up, or is killed, withdraws its question.
	require.Equal(t, "gone.test", d.killed("curious", "curl -sS http://gone.test/").What)

	// A remembered answer opens the name again after it was closed. An agent whose list has no
	// "ask" is not asked about.
	d.add("few", "--role", "few")
	d.noGet("few", "evil.test", noSuchName)
	asked = d.asking("few", "curl -sS --max-time 100 http://docs.test/")
	d.must("approvals", "approve", d.question("few").ID, "--for", "agent")
	require.Zero(t, (<-asked).code)
	require.Contains(t, d.must("approvals", "rules"), "egress(docs.test)")
	d.must("agents", "set", "few", "--egress", "none")
	d.noGet("few", "docs.test", noSuchName)
	d.must("agents", "set", "few", "--egress", "ask:docs.test,free.test")
	d.gets("few", "docs.test", "internet 203.0.113.2")
	require.Empty(t, d.questions())
}
