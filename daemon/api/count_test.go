package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountHasSingularAndPlural(t *testing.T) {
	for want, got := range map[string]string{
		"1 branch": Count(1, "branch"), "2 branches": Count(2, "branch"), "0 files": Count(0, "file"),
		"2 uncommitted files": Count(2, "uncommitted file"),
		"2 leases":            Count(2, "lease"), "2 boxes": Count(2, "box"),
	} {
		require.Equal(t, want, got)
	}
}
