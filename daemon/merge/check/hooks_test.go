package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHookThatRefusesIsNamed(t *testing.T) {
	for output, want := range map[string]string{
		"": "", "exit 1\n": "", "a secret\nthe git hook pre-merge-commit refuses the merge\n": "pre-merge-commit",
		"the git hook commit-msg refuses the merge": "commit-msg", "the git hook commit-msg refuses the merge\nok\nmake: *** [test] Error 1\n": "",
		"the git hook pre-push refuses the merge\n": "", "x the git hook commit-msg refuses the merge\n": "",
	} {
		require.Equal(t, want, refusedBy(output), output)
	}
}
