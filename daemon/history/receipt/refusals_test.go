package receipt

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestReceiptsHaveWhatWasRefused(t *testing.T) {
	s := store(t.TempDir())
	at := func(sec int) time.Time { return time.Unix(int64(1000+sec), 0).UTC() }
	data := func(text string) json.RawMessage { return json.RawMessage(text) }
	require.NoError(t, s.Append("claude",
		Entry{Time: at(1), Type: api.EventDenied, Agent: "claude", Code: api.CodeUndeclaredRead, Message: "an earlier agent of the name", Data: data(`{"op":"read","path":"old"}`)},
		Entry{Time: at(3), Type: api.EventDenied, Agent: "claude", Code: api.CodeUndeclaredRead, Message: "m", Count: 2,
			Data: data(`{"op":"read","path":"docs/a","holder":"","pid":7,"program":"cat","hint":"h","rule":"deny \"docs/**\"","shown":"DENIED_READ","errno":"EACCES","count":3}`)},
		Entry{Time: at(4), Type: api.EventLockConflict, Agent: "claude", Code: api.CodeFileLocked, Message: "m", Data: data(`{"op":"write","path":"x","holder":"bob"}`)},
		Entry{Time: at(5), Type: api.EventDenied, Agent: "claude", Code: api.CodeNotApproved, Message: "m", Data: data(`{"op":"tool","path":"make","by":"ann","reason":"not today"}`)},
		Entry{Time: at(6), Type: api.EventDenied, Agent: "claude", Code: api.CodeUndeclaredRead, Message: "many", Data: data(`{"op":"read","path":"a/1","others":"a/…","count":9}`)},
		Entry{Time: at(7), Type: api.EventDenied, Agent: "claude", Code: api.CodeUndeclaredRead, Message: "odd", Data: data(`{"op":7}`)},
		Entry{Time: at(8), Type: api.EventApprovalAsked, Agent: "claude", Message: "asked"}))
	require.NoError(t, s.Append("bob", Entry{Time: at(3), Type: api.EventDenied, Agent: "bob", Code: api.CodeUndeclaredRead, Data: data(`{"op":"read","path":"his"}`)}))
	got, broken, err := s.Refusals(t.Context(), "claude", at(2))
	require.NoError(t, err)
	require.Nil(t, broken)
	require.Equal(t, []api.WhyEntry{
		{Time: at(3), Op: "read", Path: "docs/a", Code: api.CodeUndeclaredRead, Shown: "DENIED_READ", Rule: `deny "docs/**"`, Errno: "EACCES", Hint: "h", Count: 6, Pid: 7, Program: "cat"},
		{Time: at(4), Op: "write", Path: "x", Code: api.CodeFileLocked, Holder: "bob"},
		{Time: at(5), Op: "tool", Path: "make", Code: api.CodeNotApproved, By: "ann", Reason: "not today"},
		{Time: at(6), Op: "read", Path: "a/…", Code: api.CodeUndeclaredRead, Count: 9},
		{Time: at(7), Code: api.CodeUndeclaredRead, Hint: "odd"},
	}, got)
	for _, agent := range []string{"", "nobody"} {
		got, broken, err = s.Refusals(t.Context(), agent, at(0))
		require.NoError(t, err, agent)
		require.Nil(t, broken)
		require.Empty(t, got)
	}
}
