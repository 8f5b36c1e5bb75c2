package policyrecord

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTheCommentsOfALearnedRoleNameTheCommandThatListsAll(t *testing.T) {
	l := api.LearnedPolicy{Agent: "ann", Role: "writer", Runs: []api.RecordedRun{{Run: 3}}}
	for i := range shownWithheld {
		l.Withheld = append(l.Withheld, api.PolicyRefusal{Path: fmt.Sprint("f", i), Verdict: "deny"})
	}
	require.NotContains(t, text(l), "has all")
	l.Withheld = append(l.Withheld, api.PolicyRefusal{Path: "g", Verdict: "deny"}, api.PolicyRefusal{Path: "h", Verdict: "deny"})
	require.Contains(t, text(l), "# Not allowed: 2 more; polisctl --json policy learn ann --run 3 has all.\n")
	l.Runs = append(l.Runs, api.RecordedRun{Run: 4})
	require.Contains(t, text(l), "policy learn ann --run all has all.\n")
}
