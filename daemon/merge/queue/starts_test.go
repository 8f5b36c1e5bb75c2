package queue

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAMergeStartsGitRarely bounds what one merge costs: to start git is most of
// it. The number is of starts from the line to the user's checkout.
func TestAMergeStartsGitRarely(t *testing.T) {
	r := workspace(t, 3)
	var log bytes.Buffer // the handler locks it
	for i := range 3 {
		if i == 1 {
			r.counted(&log)
		}
		j, err := r.Prepare(t.Context(), entry(fmt.Sprint("a", i)))
		require.NoError(t, err)
		out := (&BatchMerger{Merges: r.merger}).Land(t.Context(), []Job{j})
		require.NoError(t, out[0].Err)
		require.Equal(t, "updated", out[0].Project, out[0].Note)
	}
	starts := strings.Count(log.String(), " msg=git ") / 2
	require.Positive(t, starts)
	require.LessOrEqual(t, starts, 24, "%s", log.String())
}
