package policyrecord

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestReadsOfGitItselfAreNoUse(t *testing.T) {
	require.Len(t, linesOf(api.Open{Op: "open", Path: "d/.gitignore", Program: "/usr/bin/git", Command: "git status"}), 1, "git cannot do without it")
	for _, tc := range []struct {
		program, command string
		want             int
	}{
		{"/usr/bin/git", "git commit -qm work", 0},
		{"/usr/lib/git-core/git", "git -C /p -c a=b --no-pager status", 0},
		{"/usr/bin/git", "git grep word", 1},
		{"/usr/bin/git", "git diff --no-index a b", 1},
		{"/usr/bin/git", "git", 1},
		{"/usr/bin/cat", "git commit", 1},
		{"", "", 1},
	} {
		require.Len(t, linesOf(api.Open{Op: "open", Path: "a", Program: tc.program, Command: tc.command}), tc.want, "%s: %s", tc.program, tc.command)
		require.Len(t, linesOf(api.Open{Op: "open-write", Path: "a", Write: true, Program: tc.program, Command: tc.command}), 1)
	}
}
