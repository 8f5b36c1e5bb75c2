package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestWhatAShimLeavesIsReadAfterTheLastEventThatWasSeen(t *testing.T) {
	l := LeftEvents{Events: []api.Event{{ID: 10, Type: api.EventDenied}, {ID: 11, Type: EventExit}, {ID: 14, Type: api.EventLockConflict}, {ID: 15, Type: api.EventMissed}, {ID: 16, Type: api.EventAgentStatus}}}
	for seen, want := range map[uint64]struct {
		ids     []uint64
		missing uint64
	}{0: {[]uint64{10, 14, 15}, 2}, 9: {[]uint64{10, 14, 15}, 2}, 7: {[]uint64{10, 14, 15}, 4}, 10: {[]uint64{14, 15}, 2}, 14: {[]uint64{15}, 0}, 16: {nil, 0}, 99: {nil, 0}} {
		got, missing := l.Refusals(seen)
		var ids []uint64
		for _, e := range got {
			ids = append(ids, e.ID)
		}
		require.Equal(t, want.ids, ids, seen)
		require.Equal(t, want.missing, missing, seen)
	}
}
