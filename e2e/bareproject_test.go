package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestABareRepositoryWithWorktreesIsNotClonedSilently: in both layouts that people use.
func TestABareRepositoryWithWorktreesIsNotClonedSilently(t *testing.T) {
	for _, c := range []struct{ name, bare, repo string }{
		{"beside its worktrees", "code/repo.git", "code/repo.git"},
		{"hidden among its worktrees", "code/.bare", "code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := startDaemon(t, options{})
			small := d.smallRepo()
			require.NoError(t, exec.Command("chown", "-R", "0:0", small).Run()) // git clones its user's repositories only
			require.NoError(t, os.Mkdir(d.path("code"), 0o755))
			git(t, d.dir, "clone", "-q", "--bare", small, d.path(c.bare))
			if c.bare != c.repo {
				d.write("code/.git", "gitdir: ./.bare\n")
			}
			git(t, d.path(c.bare), "worktree", "add", "-q", d.path("code/main"), "main")
			git(t, d.path(c.bare), "worktree", "add", "-q", "-b", "feature", d.path("code/feature"))
			d.giveAway(d.path("code"))

			e := d.refused(api.CodeWorkspaceInvalid, "up", "--repo", d.path(c.repo), d.path("ws"))
			require.Equal(t, []any{d.path("code/main"), d.path("code/feature")}, e.Details["worktrees"])
			require.NoDirExists(t, d.path("ws", "project"))
			// As the hint says: the worktree is the project, and merges reach it.
			d.trials(t, tried{hint: "for one of its worktrees: polisctl up --repo %s; for a clone: polisctl up --repo %s --clone", refused: "up --repo " + d.path(c.repo) + " " + d.path("ws"),
				do: []string{"up --repo " + d.path("code/main") + " " + d.path("ws"), "up --clone --repo " + d.path(c.repo) + " " + d.path("ws2")}})
			d.add("alice", "-w", "ws")
			d.sh("alice", ident+"echo a > alice.txt; git add alice.txt; git commit -qm alice")
			require.Contains(t, d.must("merge", "alice"), "project: updated")
			require.FileExists(t, d.path("code/main/alice.txt"))
			require.Equal(t, "alice\n", d.asOwner(d.path("code/main"), "log", "-1", "--format=%s", "HEAD^2"))

			// On a terminal polisctl asks.
			for _, made := range []bool{false, true} {
				answer := map[bool]string{false: "n\n", true: "y\n"}[made]
				cmd := exec.CommandContext(t.Context(), filepath.Join(d.bin, "polisctl"), "up", "--repo", d.path(c.repo), d.path("asked"))
				cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
				terminal, err := pty.Start(cmd)
				require.NoError(t, err)
				_, err = terminal.WriteString(answer)
				require.NoError(t, err)
				var printed bytes.Buffer
				_, _ = printed.ReadFrom(terminal) // a terminal ends with EIO
				require.Equal(t, made, cmd.Wait() == nil, "%s", printed.String())
				require.NoError(t, terminal.Close())
				require.Contains(t, printed.String(), "Make a clone? [y/N]")
				require.Equal(t, made, strings.Contains(printed.String(), "is ready"), "%s", printed.String())
			}

			// The clone is reported, and found again.
			require.FileExists(t, d.path("ws2", "project", "main.txt"))
			d.must("up", "--repo", d.path(c.repo), d.path("ws2"))
			r := d.ctl("init", "--repo", d.path(c.repo), "--base", "custom", "--yes", "--config", d.path("polisd.toml"))
			require.NotZero(t, r.code, "%s", r)
			require.Contains(t, r.stderr, "is a bare repository with worktrees")
		})
	}
}

// TestACloneOfABareRepositoryIsReported: one without worktrees is cloned at once.
func TestACloneOfABareRepositoryIsReported(t *testing.T) {
	d := startDaemon(t, options{})
	small := d.smallRepo()
	require.NoError(t, exec.Command("chown", "-R", "0:0", small).Run())
	git(t, d.dir, "clone", "-q", "--bare", small, d.path("bare.git"))
	// A worktree that was deleted is none.
	git(t, d.path("bare.git"), "worktree", "add", "-q", d.path("deleted"), "main")
	require.NoError(t, os.RemoveAll(d.path("deleted")))
	d.giveAway(d.path("bare.git"))
	var got api.UpResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "up", "--repo", d.path("bare.git"), d.path("ws"))), &got))
	require.Equal(t, d.path("bare.git"), got.ClonedFrom)
	require.NotContains(t, d.must("--json", "up", "--repo", d.path("bare.git"), d.path("ws")), "cloned_from", "it is no new clone")
	require.Contains(t, d.must("up", "--repo", d.path("bare.git"), d.path("ws2")), "clone of  "+d.path("bare.git")+", a bare repository")
}
