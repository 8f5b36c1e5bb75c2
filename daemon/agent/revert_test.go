package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A user can see the merge in the project before polisd has recorded it.
func TestAMergeThatIsNotRecordedYetIsReverted(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"echo"}}})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	_, err = w.Revert(t.Context(), "a1", api.RevertRequest{})
	require.Equal(t, api.CodeBadState, api.CodeOf(err), "nothing was merged")

	a.WS.Queue = halfDone{a.WS.Queue.(fakeQueue), "a1"}
	resp, err := w.Revert(t.Context(), "a1", api.RevertRequest{})
	require.NoError(t, err)
	require.Equal(t, "c", resp.MergeCommitSHA)
	require.Equal(t, api.MergeReverted, resp.MergeStatus)
}
