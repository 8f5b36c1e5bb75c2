package shim

import (
	"errors"
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

// TestALogFollowsItsRotationByOthers: nothing of the output is lost, and readers know what came before.
func TestALogFollowsItsRotationByOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, OutputLog)
	l, err := openLog(dir, OutputLog, 1000)
	require.NoError(t, err)
	defer l.Close()
	total := int64(0)
	write := func(text string) {
		t.Helper()
		n, err := l.Write([]byte(text))
		require.NoError(t, err)
		total += int64(n)
		require.Equal(t, total, l.position())
	}
	for name, c := range map[string]struct {
		do  func() error
		has string
	}{
		"moved":          {func() error { return os.Rename(path, path+".old") }, "after"},
		"moved and made": {func() error { return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600)) }, "after"},
		"removed":        {func() error { return os.Remove(path) }, "after"},
		"cut":            {func() error { return os.Truncate(path, 0) }, "after"},
		"cut in part":    {func() error { return os.Truncate(path, 3) }, "befafter"},
		"with its place": {func() error { return os.RemoveAll(dir) }, "after"},
	} {
		require.NoError(t, os.RemoveAll(path))
		write("before")
		require.NoError(t, c.do(), name)
		write("after")
		b, err := os.ReadFile(path)
		require.NoError(t, err, name)
		require.Equal(t, c.has, string(b), name)
		if base, ok := readBase(path); ok {
			require.Equal(t, total, base+int64(len(b)), name)
		}
		write("!")
		fi, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), fi.Mode(), name)
	}
	// Where no file can be made, the old one is written.
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	write("more")
}
