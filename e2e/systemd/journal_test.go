package systemd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry has the fields of an entry of the journal that polis sets.
type entry struct {
	Message  string `json:"MESSAGE"`
	Priority string `json:"PRIORITY"`
	Tag      string `json:"SYSLOG_IDENTIFIER"`
	Agent    string `json:"POLIS_AGENT"`
	Case     string `json:"POLIS_CASE"`
	Place    string `json:"POLIS_WORKSPACE"`
}

// entries are those that journalctl finds, none if nothing matches.
func entries(t *testing.T, match string) (out []entry) {
	t.Helper()
	text, err := run(t, "journalctl --no-pager -q -o json "+match)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		var e entry
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		out = append(out, e)
	}
	return out
}

// logFields requires that the lines of polisd that name an agent are found by the agent, with a priority
// and the text that polisd writes elsewhere, and so are those of the agent's shim.
func logFields(t *testing.T) {
	find := func(match, text string) (out []entry) {
		for _, e := range entries(t, match) {
			if strings.Contains(e.Message, text) {
				out = append(out, e)
			}
		}
		return out
	}
	states := find("-u polisd POLIS_AGENT=alice", "agent changed its state")
	require.NotEmpty(t, states, journal(t))
	for _, e := range states {
		require.Equal(t, []string{"6", "polisd", "alice"}, []string{e.Priority, e.Tag, e.Agent})
		require.Contains(t, e.Message, " agent=alice ")
	}
	require.NotEmpty(t, find("-u polisd -p err POLIS_AGENT=dave", "shim died"), "its shim was killed")
	require.Empty(t, find("-u polisd -p err POLIS_AGENT=dave", "agent changed its state"))
	of := 0
	for _, agent := range []string{"alice", "bob", "dave", "wild"} {
		for _, e := range entries(t, "_SYSTEMD_UNIT=polis-agent@"+agent+".service") {
			require.Equal(t, agent, e.Agent, e.Message)
			of++
		}
	}
	t.Logf("%d entries of shims", of)
	require.Contains(t, must(t, "systemctl show -p LogExtraFields polis-agent@alice"), "POLIS_AGENT=alice")
	require.Empty(t, find("POLIS_AGENT=alice", "agent=bob"))
}
