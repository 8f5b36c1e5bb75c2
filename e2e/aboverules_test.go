package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A refusal names the file that the agent meant to change, also where its rules allow no change at all.
func TestARefusalAboveTheViewNamesTheFile(t *testing.T) {
	d := above(t, options{})
	d.add("eve", "--read", "**")
	require.Equal(t, "overlay", d.topMount("eve"))
	for _, do := range []string{"echo x >> main.txt", "chmod +x main.txt", "mv main.txt other", "rm main.txt"} {
		require.NotZero(t, d.exec("eve", "sh", "-c", do).code, do)
		w := d.refusalOf("eve", "main.txt")
		require.Equal(t, string(api.CodeUndeclaredWrite), string(w.Code), do)
	}
	for _, w := range d.refusals("eve") {
		require.NotEmpty(t, w.Path, "%+v", w)
	}
	require.Empty(t, d.sh("eve", "git status --porcelain"))
}
