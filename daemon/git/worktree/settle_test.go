package worktree

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASettledIndexIsNewerThanItsFiles: the times of files have the steps of the kernel's coarse clock, so an index that
// is written as soon as a second ends can still have a time of that second. Git then reads the files.
func TestASettledIndexIsNewerThanItsFiles(t *testing.T) {
	needRoot(t)
	s := spec(t, project(t))
	up(t, s)
	w := Open(Config{Workspace: s.Workspace, UID: nobody, GID: nobody})
	all := func(string) bool { return true }
	for round := range 3 {
		var settled sync.WaitGroup
		for i := range 16 {
			name := fmt.Sprintf("r%da%d", round, i)
			_, err := w.Add(t.Context(), name, "", "")
			require.NoError(t, err)
			settled.Go(func() {
				if err := w.Settle(t.Context(), name, View{}, all); err != nil {
					t.Error(err)
				}
			})
		}
		settled.Wait()
		for i := range 16 {
			newest, err := w.asOld(fmt.Sprintf("r%da%d", round, i), all)
			require.NoError(t, err)
			require.Zero(t, newest, "a file of agent %d is as new as its index", i)
		}
	}
}
