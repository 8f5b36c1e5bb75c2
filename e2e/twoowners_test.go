package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/internal/asuser"
)

// TestTwoOwnersInOnePolisd: the projects of two users are under one polisd. Neither user, nor an agent of either,
// gets or changes anything of the other.
func TestTwoOwnersInOnePolisd(t *testing.T) {
	x := newExchangers(t, false)
	theirs := x.path("victim/a/project")
	x.must("up", "--repo", theirs, x.path("ws2"))
	x.must("agents", "add", "alice", "-w", "ws", "--base", "custom")
	x.must("agents", "add", "vera", "-w", "ws2", "--base", "custom")
	require.Equal(t, theirSecret+"\n", x.sh("vera", "cat .env"), "its own")
	x.sh("vera", "echo "+theirSecret+" > unsaved; echo "+theirSecret+" > $HOME/note; git add unsaved")

	// The agent of one owner: every path at which something of the other owner is.
	for _, path := range []string{theirs, x.path("ws2"), x.path("ws2/.polis/bare-repo.git"), x.path("ws2/.polis/worktrees/vera"), x.path("ws2/.polis/home/vera"), x.path("run")} {
		r := x.exec("alice", "sh", "-c", "ls -a "+path+" && grep -r "+theirSecret+" "+path)
		require.NotContains(t, r.stdout, theirSecret, path)
		require.NotZero(t, r.code, "%s: %s", path, r)
	}
	require.NotContains(t, x.sh("alice", "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; git for-each-ref; cat /run/polis/* 2>/dev/null || true"), "vera")

	// One owner as a user of the machine.
	for _, path := range []string{"ws2/.polis/worktrees/vera", "ws2/.polis/private/vera", "ws2/.polis/home/vera", "run/agents/vera"} {
		for _, inside := range []string{"", "unsaved", "note", "spec.json", "shim.sock", "objects"} {
			err := asuser.Do(mallory, mallory, func() error {
				f, err := os.Open(filepath.Join(x.path(path), inside))
				if err == nil {
					_ = f.Close()
				}
				return err
			})
			require.ErrorIs(t, err, os.ErrPermission, "%s/%s", path, inside)
		}
	}
	for _, args := range [][]string{{"status"}, {"agents", "list"}, {"up", "--repo", theirs}, {"workspace", "move", "ws2", x.project}, {"agents", "exec", "vera", "--", "id"}} {
		require.NotZero(t, x.ctlAs(mallory, mallory, args...).code, "%v", args)
	}

	// The project of one owner becomes a link to that of the other: a request for the other's is for the other's.
	x.asMallory("mv a away; ln -s ../victim/a a")
	resp := x.must("up", "--repo", theirs)
	require.Contains(t, resp, "workspace ws2 was already there")
	x.refused(api.CodeProjectChanged, "agents", "add", "eve", "-w", "ws", "--base", "custom")
	x.must("agents", "add", "vic", "-w", "ws2", "--base", "custom")
	x.asMallory("rm a; mv away a")
	x.must("agents", "add", "eve", "-w", "ws", "--base", "custom")
	x.untouched()
}
