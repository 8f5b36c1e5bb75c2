package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACutListOfBranchesNamesTheCommandThatListsAll(t *testing.T) {
	one := BranchWork{Branch: "x", Commits: 1, Run: "polisctl merge ann --branch x"}
	require.Empty(t, BranchesText(nil, "all"))
	require.Equal(t, "1 commit on x not merged: polisctl merge ann --branch x", BranchesText([]BranchWork{one}, "all"))
	require.Equal(t, "1 commit on x not merged: polisctl merge ann --branch x (and 2 branches more: polisctl tasks show ann.3)",
		BranchesText([]BranchWork{one, one, one}, "polisctl tasks show ann.3"))
}
