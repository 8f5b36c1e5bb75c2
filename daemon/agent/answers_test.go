package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
)

type keptAnswers struct {
	last store.Answers
	err  error
}

func (k *keptAnswers) SaveAnswers(_ string, a store.Answers) error {
	if k.err == nil {
		k.last = a
	}
	return k.err
}

func TestAnswersAreKeptOnceAndARevokedOneStaysRevoked(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	kept := &keptAnswers{}
	w.Answers = kept
	_, err := w.Add(context.Background(), api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	rule := api.ApprovalRule{ID: "a1.x", Verdict: api.VerdictApprove, Kind: api.ApprovalTool, Tool: "bash", What: "make"}

	kept.err = errors.New("disk full")
	require.Equal(t, api.CodeStateNotSaved, api.CodeOf(w.keepAnswer(a, rule)))
	require.Empty(t, a.Remembered(), "what is not saved does not hold")
	kept.err = nil
	for range 2 { // a shim reports an answer at least once
		require.NoError(t, w.keepAnswer(a, rule))
	}
	require.Len(t, a.Remembered(), 1)
	require.EqualValues(t, 1, kept.last.Version)
	require.Equal(t, "a1", a.Remembered()[0].Agent)

	_, err = w.RevokeApproval("a1.x")
	require.NoError(t, err)
	require.NoError(t, w.keepAnswer(a, rule), "a late report")
	require.Empty(t, a.Remembered())
	_, err = w.RevokeApproval("a1.x")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))

	other := rule
	other.ID, other.Role = "a1.y", "worker"
	require.NoError(t, w.keepAnswer(a, other))
	require.Empty(t, a.Remembered(), "the agent has no such role")
	rule.ID = "a1.z"
	require.NoError(t, w.keepAnswer(a, rule))
	_, err = w.Remove(context.Background(), "a1", true, false)
	require.NoError(t, err)
	rules, err := w.ApprovalRules("")
	require.NoError(t, err)
	require.Len(t, rules, 1, "only the role's: another agent of that name begins without")
	require.Equal(t, "worker", rules[0].Role)
}
