package delegate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func TestNamesOfWorkers(t *testing.T) {
	for branch, want := range map[string]string{
		"feat/auth":                              "feat-auth",
		"Feat/OAuth2":                            "feat-oauth2",
		"42":                                     "worker",
		"42-fix":                                 "fix",
		"x":                                      "worker",
		"fix//--a":                               "fix-a",
		"ü/größe":                                "gr-e",
		"a/23456789012":                          "a-23456789012",
		"feature/a-branch-with-a-very-long-name": "feature-a-branch-with-a",
	} {
		for name := range Names(branch) {
			require.Equal(t, want, name)
			break
		}
	}
	var got []string
	for name := range Names("a/b") {
		if got = append(got, name); len(got) == 3 {
			break
		}
	}
	require.Equal(t, []string{"a-b", "a-b-2", "a-b-3"}, got)
}

func TestEveryBranchHasNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 0
		for name := range Names(rapid.String().Draw(t, "branch")) {
			require.NoError(t, api.CheckName(name))
			if n++; n == 3 {
				break
			}
		}
		require.Equal(t, 3, n)
	})
}
