package git

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALineThatEndsWithAColonHasItsList: git lists what a merge would overwrite on lines of their own.
func TestALineThatEndsWithAColonHasItsList(t *testing.T) {
	const would = "error: Your local changes to the following files would be overwritten by merge:\n"
	for stderr, want := range map[string]string{
		would + "\ta.txt\n\tdir/b\nPlease commit your changes or stash them before you merge.\nAborting\n": "overwritten by merge: a.txt, dir/b",
		would + "\ta\n\tb\n\tc\n\td\n\te\nAborting\n":                                                      "overwritten by merge: a, b, c and 2 more \\(git status lists changed and new files\\)",
		would + "Aborting\n":                    "overwritten by merge",
		would:                                   "overwritten by merge",
		"fatal: not a git repository: x\n\ty\n": "not a git repository: x",
	} {
		e := &ExitError{Args: []string{"merge"}, Code: 1, Stderr: stderr}
		require.Regexp(t, want+"$", e.Line())
		require.NotRegexp(t, "[:;]$", e.Error())
	}
}
