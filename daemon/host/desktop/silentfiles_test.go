package desktop

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/host/command"
	"polis/internal/need"
	"polis/internal/sessionbus"
)

// TestAFileSystemThatNeverAnswersIsNotWaitedFor: SIGKILL does not end the child then. The user gets no other one before
// it has ended.
func TestAFileSystemThatNeverAnswersIsNotWaitedFor(t *testing.T) {
	need.Root(t)
	dir := sessionbus.Dir(t, user)
	end := sessionbus.Silence(t, dir, user)
	began := time.Now()
	unseen(t, Failed, command.ErrUnended.Error())
	require.Less(t, time.Since(began), 20*time.Second+10*time.Second, "20 is what the package promises")
	began = time.Now()
	unseen(t, Failed, "not started")
	require.Less(t, time.Since(began), 5*time.Second)
	end()
	require.Eventually(t, func() bool {
		err := Show(t.Context(), credential(), Note{Title: "x"})
		return err != nil && err.Error() == string(NoSession)
	}, 30*time.Second, 10*time.Millisecond, "it has ended")
	_, err := os.Lstat(filepath.Join(dir, "bus"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
