package wire

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARequestNotesAsManyPathsAsAShimTakes(t *testing.T) {
	require.Equal(t, ChangesRequest{Add: [][]byte{[]byte("a"), {0xff}}}, Noting([]string{"a", "\xff"}, "many"))
	var paths []string
	last := 0
	for i := range 100_000 {
		paths = append(paths, fmt.Sprintf("directory/%d", i))
		if i%1000 != 0 {
			continue
		}
		req := Noting(paths, "many")
		b, err := json.Marshal(req)
		require.NoError(t, err)
		require.Less(t, len(b), 1<<20)
		if req.Lose == "" {
			require.Len(t, req.Add, len(paths))
			last = i
		} else {
			require.Equal(t, ChangesRequest{Lose: "many"}, req)
		}
	}
	require.Greater(t, last, 16<<10)
}
