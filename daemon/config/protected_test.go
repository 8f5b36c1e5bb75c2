package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/policy/glob"
)

func TestProtectedFilesHaveAReason(t *testing.T) {
	seen := map[string]bool{}
	for _, trigger := range ProtectedFiles() {
		require.NotEmpty(t, trigger.When)
		for _, f := range trigger.Files {
			require.NotEmpty(t, f.Program, f.Patterns)
			require.NotEmpty(t, f.Effect, f.Patterns)
			for _, p := range f.Patterns {
				require.False(t, seen[p], "%s twice", p)
				seen[p] = true
				_, err := glob.Compile(p)
				require.NoError(t, err, p)
				require.NotContains(t, p, "!")
				require.NotRegexp(t, `^[*.]+$`, p, "of everything")
				require.NotEmpty(t, ProtectedReasons()[p])
			}
		}
	}
	require.Len(t, DefaultProtected(), len(seen))
}

func TestTheDefaultOfProtectedPathsCanBeExtended(t *testing.T) {
	all := DefaultProtected()
	for text, want := range map[string][]string{
		"":                            all,
		"protected = []":              {},
		`protected = ["a", ".envrc"]`: {"a", ".envrc"},
		`protected = ["@default"]`:    all,
		`protected = ["a", "@default", "!.env", "@default"]`:                           slices.Concat([]string{"a"}, all, []string{"!.env"}),
		"protected = [\"a\"]\n[merge.workspaces.w]\nprotected = [\"@default\", \"b\"]": append(slices.Clone(all), "b"),
	} {
		c, err := Parse("[merge]\n" + text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.MergeRules("w").Protected, text)
	}
	_, err := Parse("[merge]\nprotected = [\"@default\", " + strings.Repeat("\"x\", ", maxProtected) + "]")
	require.ErrorContains(t, err, "at most 1000")
}
