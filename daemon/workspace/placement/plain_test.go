package placement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git/worktree"
	"polis/daemon/store"
)

func TestAPlainDirectoryStaysOneUntilAUserAdoptsItsGit(t *testing.T) {
	require.True(t, IsPlain(store.State{Project: "/p"}))
	require.False(t, IsPlain(store.State{Project: "/p", Git: true}))
	require.False(t, IsPlain(store.State{}), "a new workspace")
	for _, c := range []struct {
		plain  bool
		agents int
		adopt  bool
		want   bool
	}{{true, 0, false, true}, {true, 1, false, true}, {true, 1, true, true}, {true, 0, true, false}, {false, 0, false, false}, {false, 1, false, false}, {false, 0, true, false}} {
		require.Equal(t, c.want, StaysPlain(c.plain, c.agents, c.adopt), c)
	}
}

func TestWarningsOfAPlainDirectory(t *testing.T) {
	info := worktree.Info{ProjectPath: "/p"}
	require.Empty(t, PlainWarnings(worktree.Info{Git: true}, false, 1000))
	require.Contains(t, PlainWarnings(info, true, 1000)[0], "files that they create belong to root")
	require.Contains(t, PlainWarnings(info, false, 1000)[0], "agents run as uid 1000 and can read but not change them")
	info.ProjectOwner.UID = 1000
	require.Empty(t, PlainWarnings(info, false, 1000))
	info.BecameGit = true
	require.Contains(t, PlainWarnings(info, false, 1000)[0], "polisctl up --adopt-git")
}
