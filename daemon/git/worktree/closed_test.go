package worktree

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAHomeThatRefusesRootIsExplained: a FUSE mount without allow_root answers EACCES to root.
func TestAHomeThatRefusesRootIsExplained(t *testing.T) {
	err := closed(&fs.PathError{Op: "stat", Path: "/home/ann/p", Err: unix.EACCES})
	require.ErrorIs(t, err, unix.EACCES)
	require.ErrorContains(t, err, "allow_root")
	gone := &fs.PathError{Op: "stat", Path: "/home/ann/p", Err: unix.ENOENT}
	require.Equal(t, error(gone), closed(gone))
}
