package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACommandIsPrintedAsOneWouldTypeIt: a shell reads the words that are there.
func TestACommandIsPrintedAsOneWouldTypeIt(t *testing.T) {
	require.Equal(t, `sed 's/\./x/' "{prompt}"`, commandText([]string{"sed", `s/\./x/`, "{prompt}"}))
	words := []string{"printf", "%s|", `a\b`, `it's`, `"$HOME"`, "`id`", `\`, "a b", "", "!x", "*", `don't \1`, "tab\there"}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", commandText(words)).Output()
	require.NoError(t, err)
	require.Equal(t, `a\b|it's|"$HOME"|`+"`id`|"+`\|a b||!x|*|don't \1|`+"tab\there|", string(out))
}
