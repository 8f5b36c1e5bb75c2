package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAgentOfANewCommitSharesTheBaseOfANearOne: polis makes no second base tree after a small commit of the
// user, and the worktree is that of the new commit, also after a polisd that died while it was made.
func TestAnAgentOfANewCommitSharesTheBaseOfANearOne(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "\n[workspace]\nworktree = \"shared\"\n"})
	src := d.smallRepo()
	// Git checks fewer files out about as fast.
	for i := range 12_000 {
		at := filepath.Join(src, fmt.Sprintf("many/%d/a rather long name of a file %d.txt", i%50, i))
		if i < 50 {
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		}
		require.NoError(t, os.WriteFile(at, fmt.Append(nil, i, "\n"), 0o644))
	}
	commit := func() {
		d.giveAway(src)
		git(t, src, "add", "-A")
		git(t, src, "commit", "-qm", "more")
		d.giveAway(src)
	}
	commit()
	d.must("up", "--repo", src, d.path("ws"))
	d.add("ann")
	require.Len(t, d.bases(), 1)

	require.NoError(t, os.WriteFile(filepath.Join(src, "main.txt"), []byte("new\n"), 0o644))
	require.NoError(t, os.RemoveAll(filepath.Join(src, "many", "7")))
	require.NoError(t, os.Mkdir(filepath.Join(src, "fresh"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "fresh", "file"), []byte("fresh\n"), 0o644))
	commit()
	for _, step := range []string{"layers:indexed", "layers:mounted", "layers:advanced"} {
		d.dieAt(step, func() result { return d.ctl("agents", "add", "bob", "--base", "custom") })
		require.Empty(t, d.report().Errors, step)
		d.nothingOf("bob", step)
	}
	d.add("bob")
	require.Len(t, d.bases(), 1)
	require.Equal(t, "new\nfresh\ngone\n", d.sh("bob", "git status --porcelain; cat main.txt fresh/file; test -e many/7 || echo gone"))
	require.Equal(t, "one\ntwo\nthree\n", d.sh("ann", "git status --porcelain; cat main.txt"))
	require.Equal(t, strings.TrimSpace(git(t, src, "rev-parse", "HEAD")), strings.TrimSpace(d.sh("bob", "git rev-parse HEAD")))

	// It is a worktree as any other: changes, a commit, the daemon's view of them, a fork.
	d.sh("bob", "echo more >> 'many/1/a rather long name of a file 1.txt'; rm 'many/2/a rather long name of a file 2.txt'; git commit -qam work; echo x > new.txt")
	require.Equal(t, "?? new.txt\n", d.sh("bob", "git status --porcelain"))
	names := strings.Fields(d.must("agents", "diff", "bob", "--name-only"))
	require.Contains(t, names, "new.txt")
	require.NotContains(t, names, "main.txt", "what the commit of the user changed is not the agent's work")
	d.must("agents", "fork", "bob", "fay")
	require.Equal(t, "?? new.txt\nmore\ngone\n", d.sh("fay", "git status --porcelain; tail -n 1 many/1/*' 1.txt'; test -e many/7 || echo gone"))
}
