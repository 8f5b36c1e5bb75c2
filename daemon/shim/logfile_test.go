package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALogKnowsWhatCameBefore: every file says how much of the log was before
// it, across rotations and shims.
func TestALogKnowsWhatCameBefore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, OutputLog)
	total := 0
	for range 5 {
		l, err := openLog(dir, OutputLog, 100)
		require.NoError(t, err)
		for range 4 {
			n, err := l.Write(make([]byte, 30))
			require.NoError(t, err)
			total += n
			base, ok := readBase(path)
			if !ok {
				t.Skip("the file system has no extended attributes")
			}
			fi, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, int64(total), base+fi.Size())
			if old, err := os.Stat(path + ".1"); err == nil {
				before, ok := readBase(path + ".1")
				require.True(t, ok)
				require.Equal(t, base, before+old.Size())
			}
		}
		require.NoError(t, l.Close())
	}
}
