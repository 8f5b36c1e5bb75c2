package fuseuring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel's own switch is for other packages' tests, which run at the same time.
func TestTheSwitchIsTurnedAndSaysHowItWas(t *testing.T) {
	kernels := parameter
	t.Cleanup(func() { parameter = kernels })
	parameter = filepath.Join(t.TempDir(), "enable_uring")
	_, err := Enabled()
	require.ErrorIs(t, err, ErrNone)
	_, err = SetEnabled(true)
	require.ErrorIs(t, err, ErrNone)
	require.NoFileExists(t, parameter)

	require.NoError(t, os.WriteFile(parameter, []byte("N\n"), 0o600))
	before := false
	for _, on := range []bool{true, true, false, false} {
		was, err := SetEnabled(on)
		require.NoError(t, err)
		require.Equal(t, before, was)
		now, err := Enabled()
		require.NoError(t, err)
		require.Equal(t, on, now)
		before = on
	}
}
