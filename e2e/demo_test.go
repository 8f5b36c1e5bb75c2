package e2e

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDemonstration runs the commands that the README recommends to a new user.
func TestDemonstration(t *testing.T) {
	needRoot(t)
	cmd := exec.CommandContext(t.Context(), "../scripts/demo")
	cmd.Env = append(os.Environ(), "POLIS_BIN="+bin(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "Done")
}
