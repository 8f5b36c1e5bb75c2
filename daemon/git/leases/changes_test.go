package leases

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/lockd"
)

func TestReceiptsOfLeases(t *testing.T) {
	change := func(path string, granted, held bool) lockd.Change {
		return lockd.Change{Lease: lockd.Lease{Path: path, Op: "create", Pid: 7}, Granted: granted, Held: held}
	}
	file := lockd.FileKey("a\xff")
	got := Receipts(lockd.Changes{Workspace: "ws", Holder: "alice", List: []lockd.Change{change(file, true, true), change(lockd.FileKey("b"), false, false),
		change(lockd.FileKey("c"), true, false), change(lockd.RefKey("refs/heads/x"), true, false), change(lockd.Exclusive, true, false)}})
	require.Len(t, got, 1, "git's own locks are not recorded")
	require.Equal(t, api.ReceiptLeases, got[0].Type)
	require.Equal(t, "alice: 2 leases granted, 2 leases ended", got[0].Message)
	text, err := json.Marshal(got[0].Data["leases"])
	require.NoError(t, err)
	var list []api.LeaseChange
	require.NoError(t, json.Unmarshal(text, &list))
	require.Len(t, list, 3)
	require.Equal(t, "a\xff", api.DecodePath(list[0].Path))
	require.Equal(t, "ws", got[0].Data["workspace"])

	require.Empty(t, Receipts(lockd.Changes{Holder: DaemonHolder + "git:1", List: []lockd.Change{change(file, true, true)}}))
	require.Empty(t, Receipts(lockd.Changes{Workspace: "ws", Holder: "alice", List: []lockd.Change{change(lockd.Exclusive, true, false)}}))

	var many []lockd.Change
	for i := range 250 {
		many = append(many, change(lockd.FileKey(fmt.Sprint(i, strings.Repeat("\xff", 4000))), true, true))
	}
	got = Receipts(lockd.Changes{Workspace: "ws", Holder: "alice", List: many, Missed: 5})
	total := 0
	for i, e := range got {
		require.Equal(t, i == 0, e.Data["missed"] == 5)
		total += len(e.Data["leases"].([]api.LeaseChange))
		text, err := json.Marshal(e.Data)
		require.NoError(t, err)
		require.Less(t, len(text), 40<<10, "an entry has room for it")
	}
	require.Equal(t, 250, total)
}
