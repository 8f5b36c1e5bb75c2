package worktree

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/overlayfs"
)

// kernel mounts as polisd does.
type kernel struct{}

func (kernel) Mount(lower []string, upper, work, target string) error {
	return overlayfs.Mount(overlayfs.Layers{Lower: lower, Upper: upper, Work: work, Target: target})
}
func (kernel) MountReadOnly(target string, dirs ...*os.File) error {
	return overlayfs.MountReadOnly(target, dirs...)
}
func (kernel) Mounted(target string) (bool, error) { return overlayfs.Mounted(target) }
func (kernel) Unmount(target string) error         { return overlayfs.Unmount(target) }
func (kernel) Changes(ctx context.Context, lower, upper *os.File, skip string, most int) ([]string, error) {
	return overlayfs.Changes(ctx, lower, upper, skip, most)
}

// layeredWorkspace makes worktrees that share a base tree.
func layeredWorkspace(t *testing.T) *Workspace {
	t.Helper()
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody, Mounts: kernel{}, Shared: func() bool { return true }})
	t.Cleanup(func() { require.NoError(t, w.DetachAll()) })
	return w
}

// A reader that comes while a worktree is removed mounts nothing that stays.
func TestNoReaderMountsAWorktreeThatIsRemoved(t *testing.T) {
	w := layeredWorkspace(t)
	for range 5 {
		_, err := w.Add(t.Context(), "ann", "", "")
		require.NoError(t, err)
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = w.Attach(t.Context(), "ann") //nolint:errcheck // it may be gone
					}
				}
			})
		}
		require.NoError(t, w.Remove(t.Context(), "ann"))
		close(stop)
		readers.Wait()
		there, err := overlayfs.Mounted(w.layout().LayersMerged("ann"))
		require.NoError(t, err)
		require.False(t, there)
		require.NoDirExists(t, w.layout().Layers("ann"))
		left, err := filepath.Glob(filepath.Join(w.polis(), "save-*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// What cannot be saved is moved to the trash; the base below it is kept until the trash is emptied.
func TestABaseStaysForChangesInTheTrash(t *testing.T) {
	w := layeredWorkspace(t)
	_, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	id, err := w.baseOf("ann")
	require.NoError(t, err)
	merged, err := w.attach(t.Context(), "ann")
	require.NoError(t, err)
	write(t, filepath.Join(merged, "README"), "mine\n")
	dir, err := w.MoveToTrash(t.Context(), "ann", os.ErrInvalid)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "worktree", "README"))
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(text))
	require.NoFileExists(t, filepath.Join(dir, "worktree", "a dir", "with space"), "only the changes are moved")
	kept, err := readBase(filepath.Join(dir, trashBase))
	require.NoError(t, err)
	require.Equal(t, id, kept)
	removed, err := w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Empty(t, removed)
	require.NoError(t, os.RemoveAll(dir))
	removed, err = w.MaintainBases(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{id}, removed)
}
