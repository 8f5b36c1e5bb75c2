package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// leaseChanges returns the changes of leases that the receipts of an agent have, the last one of each path.
func (d *daemon) leaseChanges(agent string) map[string]api.LeaseChange {
	d.t.Helper()
	out := map[string]api.LeaseChange{}
	for _, r := range d.receipts(agent, "--type", api.ReceiptLeases).Receipts {
		var data struct{ Leases []api.LeaseChange }
		require.NoError(d.t, json.Unmarshal(r.Data, &data))
		for _, l := range data.Leases {
			out[l.Path] = l
		}
	}
	return out
}

// TestReceiptsOfLeases: what an agent is granted by a write or by name is in its receipts, what it writes
// again is not, a refusal is, and an agent that makes many files has few entries.
func TestReceiptsOfLeases(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo 1 >> main.txt; for i in $(seq 20); do echo $i >> main.txt; done")
	d.must("lock", "docs", "--agent", "alice", "--tree", "--reason", "rewrite")
	held := func(path string) api.LeaseChange {
		t.Helper()
		var l api.LeaseChange
		d.eventually("the grant of "+path, func() bool { l = d.leaseChanges("alice")[path]; return l.Held })
		return l
	}
	l := held("main.txt")
	require.False(t, l.Explicit)
	require.NotZero(t, l.PID)
	l = held("docs")
	require.True(t, l.Explicit && l.Tree)
	n := len(d.receipts("alice", "--type", api.ReceiptLeases).Receipts)
	d.sh("alice", "for i in $(seq 50); do echo $i >> main.txt; done")
	require.Len(t, d.receipts("alice", "--type", api.ReceiptLeases).Receipts, n, "it has the lease already")

	require.NotZero(t, d.exec("bob", "sh", "-c", "echo x >> main.txt").code)
	d.refused(api.CodeFileLocked, "lock", "docs", "--agent", "bob")
	d.eventually("both refusals", func() bool { return len(d.receipts("bob", "--type", api.EventLockConflict).Receipts) >= 2 })

	d.sh("alice", "mkdir many; for i in $(seq 1000); do echo $i > many/f$i; done")
	held("many/f1000")
	all := d.leaseChanges("alice")
	for i := range 1000 {
		require.True(t, all[fmt.Sprint("many/f", i+1)].Granted)
	}
	require.Less(t, len(d.receipts("alice", "--type", api.ReceiptLeases).Receipts)-n, 100)
	d.must("agents", "stop", "alice")
	d.eventually("they end", func() bool { all := d.leaseChanges("alice"); return !all["main.txt"].Held && !all["many/f7"].Held })
	d.must("lock", "main.txt") // a person's
	d.eventually("in the log of the workspace", func() bool {
		for _, r := range d.receipts("--type", api.ReceiptLeases).Receipts {
			if r.Log == "" {
				return true
			}
		}
		return false
	})
	require.Empty(t, d.verifiedReceipts().Fault)
}
