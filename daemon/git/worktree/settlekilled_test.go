package worktree

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASettleOfAKilledPolisdLeavesNoLock: it can be killed at any instruction while it publishes an index. The next polisd
// removes what is left, and so does the next settle; a lock of the agent's own git stays.
func TestASettleOfAKilledPolisdLeavesNoLock(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	_, err := w.Add(t.Context(), "alice", "", "")
	require.NoError(t, err)
	at := func(name string) string { return filepath.Join(w.admin("alice"), name) }
	heals := map[string]func() error{
		"the start of polisd": func() error { return w.Sweep(t.Context()) },
		"a settle": func() error {
			old := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(at("index"), old, old))
			return w.Settle(t.Context(), "alice", View{}, all)
		},
	}
	for by, heal := range heals {
		for name, leave := range map[string]func(){
			"before the lock": func() {},
			"with the lock":   func() { require.NoError(t, os.Link(at(settledIndex), at(indexLock))) },
			"published": func() {
				require.NoError(t, os.Rename(at(settledIndex), at("index")))
				require.NoError(t, os.Link(at("index"), at(settledIndex)))
			},
			"a lock of git": func() { write(t, at(indexLock), "git's") },
		} {
			t.Run(by+" "+name, func(t *testing.T) {
				text, err := os.ReadFile(at("index"))
				require.NoError(t, err)
				write(t, at(settledIndex), string(text))
				leave()
				require.NoError(t, heal())
				require.NoFileExists(t, at(settledIndex))
				if name == "a lock of git" {
					require.FileExists(t, at(indexLock))
					require.NoError(t, os.Remove(at(indexLock)))
				}
				require.NoFileExists(t, at(indexLock))
				as(t, 0, w.tree("alice"), "-c", "safe.directory=*", "status", "--short")
			})
		}
	}
}

// TestWhatAnAgentPutsInTheWayOfASettleStopsNoStart: it makes what it likes in its part of the git directory.
func TestWhatAnAgentPutsInTheWayOfASettleStopsNoStart(t *testing.T) {
	needRoot(t)
	w := up(t, spec(t, project(t)))
	for _, name := range []string{"alice", "bob"} {
		_, err := w.Add(t.Context(), name, "", "")
		require.NoError(t, err)
	}
	mine := filepath.Join(w.admin("alice"), settledIndex)
	require.NoError(t, os.MkdirAll(filepath.Join(mine, "full"), 0o777))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(w.admin("bob"), settledIndex)))
	require.NoError(t, os.Link(filepath.Join(w.admin("bob"), "HEAD"), filepath.Join(w.admin("bob"), indexLock)))
	require.NoError(t, w.Sweep(t.Context()))
	require.DirExists(t, mine)
	require.NoFileExists(t, filepath.Join(w.admin("bob"), settledIndex))
	require.FileExists(t, filepath.Join(w.admin("bob"), indexLock), "it is not the one beside it")
	require.FileExists(t, "/etc/passwd")
	require.Error(t, w.Settle(t.Context(), "alice", View{}, all), "it waits for nobody, and is logged")
}
