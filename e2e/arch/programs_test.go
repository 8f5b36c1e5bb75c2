package arch

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoBuiltProgramIsCommitted: go build writes one into the current directory.
func TestNoBuiltProgramIsCommitted(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root(t), ".git")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the sources are no git checkout")
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", root(t), "ls-files", "-z")
	out, err := cmd.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		f, err := os.Open(filepath.Join(root(t), name))
		if err != nil {
			continue // it is removed and not committed yet, or a symlink without a target
		}
		magic := make([]byte, 4)
		_, err = io.ReadFull(f, magic)
		require.NoError(t, f.Close())
		require.False(t, err == nil && string(magic) == "\x7fELF", "%s is a built program", name)
	}
}
