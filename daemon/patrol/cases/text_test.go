package cases

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestEventsOfCases(t *testing.T) {
	c := api.Case{ID: "case-1", Agent: "a", Kind: "Stalled", State: api.CasePending, Evidence: []string{"no output", "no input"}}
	e := Event(Opened, c)
	require.Equal(t, api.EventCase, e.Type)
	require.Equal(t, "case-1 of agent a (Stalled, "+string(api.CasePending)+"): opened: no output; no input", e.Message)
	require.Equal(t, "opened", e.Data["change"])
	require.Equal(t, c, e.Data["case"])
	c.State, c.Resolution = api.CaseResolved, &api.CaseResolution{How: "it lives"}
	require.Equal(t, "case-1 of agent a (Stalled, "+string(api.CaseResolved)+"): resolved: it lives", Event(Resolved, c).Message)
	c.Resolution.How = ""
	require.True(t, strings.HasSuffix(Event(Resolved, c).Message, "): resolved"))
}

func TestNotesAreOneLine(t *testing.T) {
	for note, ok := range map[string]bool{"": true, "seen": true, strings.Repeat("a", maxNote): true,
		strings.Repeat("a", maxNote+1): false, "a\nb": false, "\x1b[2J": false, "a\x7f": false} {
		require.Equal(t, ok, CheckNote(note) == nil, "%q", note)
	}
	require.Equal(t, api.CodeBadRequest, api.CodeOf(CheckNote("\n")))
}
