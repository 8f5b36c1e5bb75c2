package api

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A shell reads the word as it was, and a terminal shows all of the line.
func TestAPastedWordIsTheWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "'", `"`, `\`, "$(id)", "`", "\n", "\x1b]0;x\x07", "\u202e", "\xff", "\xe2\x80", "é", "\u00a0", " ", "-", "!", "1", "\t", "~", "#", "\ufffd", "=", `\'`, "'; echo run; #", `\'; echo run; #`})
		word := rapid.SampledFrom([]string{"-", "", "="}).Draw(rt, "first") + strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(rt, "pieces"), "")
		text := PastedWord(word)
		require.True(rt, utf8.ValidString(text), "%q", text)
		require.False(rt, strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+text)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
		out, err := cmd.Output()
		require.NoError(rt, err, text)
		require.Equal(rt, word, string(out), text)
		// Shells that do not know these quotes get another word, or refuse the line, and run nothing of it.
		other, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+text).CombinedOutput()
		require.NoError(rt, err, text)
		require.NotContains(rt, string(other), "\n", text)
	})
}
