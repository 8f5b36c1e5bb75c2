package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAMergeStartsGitRarely bounds what one merge costs: to start git is most of
// it. The number is of starts from the line to the user's checkout.
func TestAMergeStartsGitRarely(t *testing.T) {
	r := workspace(t, 3)
	log := filepath.Join(t.TempDir(), "starts")
	require.NoError(t, os.WriteFile(log, nil, 0o666))
	require.NoError(t, os.Chmod(log, 0o666))
	require.NoError(t, os.Chmod(filepath.Dir(log), 0o755))
	for i := range 3 {
		if i == 1 {
			r.counted(t, log)
		}
		j, err := r.Prepare(t.Context(), entry(fmt.Sprint("a", i)))
		require.NoError(t, err)
		out := (&Lander{Merges: r.merger}).Land(t.Context(), []Job{j})
		require.NoError(t, out[0].Err)
		require.Equal(t, "updated", out[0].Project, out[0].Note)
	}
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	starts := strings.Count(string(b), "\n") / 2
	require.LessOrEqual(t, starts, 22, "%s", b)
}
