package fuseuring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel's own switch is for other packages' tests, which run at the same time.
func TestTheSwitchIsTurnedAndReportsHowItWas(t *testing.T) {
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

func TestOnlyASwitchThatWasTurnedOnIsTurnedOff(t *testing.T) {
	kernels := parameter
	t.Cleanup(func() { parameter = kernels })
	dir := t.TempDir()
	parameter = filepath.Join(dir, "enable_uring")
	mark := filepath.Join(dir, "mark")
	require.ErrorIs(t, EnableMarked(mark), ErrNone)
	require.NoFileExists(t, mark)
	require.NoError(t, RestoreMarked(mark))

	on := func() bool {
		on, err := Enabled()
		require.NoError(t, err)
		return on
	}
	require.NoError(t, os.WriteFile(parameter, []byte("Y\n"), 0o600))
	require.NoError(t, EnableMarked(mark))
	require.NoFileExists(t, mark, "another program turned it on")
	require.NoError(t, RestoreMarked(mark))
	require.True(t, on())

	require.NoError(t, os.WriteFile(parameter, []byte("N\n"), 0o600))
	for range 2 { // after a restart of the program, too
		require.NoError(t, EnableMarked(mark))
		require.FileExists(t, mark)
		require.True(t, on())
	}
	require.Error(t, RestoreMarked(filepath.Join(mark, "x")), "it is not known")
	require.NoError(t, RestoreMarked(mark))
	require.NoFileExists(t, mark)
	require.False(t, on())

	require.NoError(t, os.WriteFile(mark, nil, 0o600))
	require.NoError(t, os.Remove(parameter))
	require.NoError(t, RestoreMarked(mark), "the module is gone, and its switch with it")
	require.NoFileExists(t, mark)
}
