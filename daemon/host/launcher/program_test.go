package launcher

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestWhereTheShimIs(t *testing.T) {
	dirs := installed
	t.Cleanup(func() { installed = dirs })
	first, second := t.TempDir(), t.TempDir()
	installed = []string{first, second}
	got, err := FindShim("/opt/polis-shim")
	require.NoError(t, err)
	require.Equal(t, "/opt/polis-shim", got)
	_, err = FindShim("")
	require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
	require.NotEmpty(t, api.AsError(err).Hint)
	require.NoError(t, os.Mkdir(filepath.Join(first, "polis-shim"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(second, "polis-shim"), nil, 0o755))
	got, err = FindShim("")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(second, "polis-shim"), got, "a directory is no program")
}
