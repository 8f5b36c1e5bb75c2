package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAMergeThatNeedsTooMuchMemoryFailsAlone: an agent's content makes polisd's git exceed that
// agent's limit. Its merge fails with the reason. polisd and the other agents continue.
func TestAMergeThatNeedsTooMuchMemoryFailsAlone(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"60s\"\nhold = \"1s\"\n[limits]\ngit_memory_mb = 64\n"})
	repo := d.smallRepo()
	require.NoError(t, os.WriteFile(filepath.Join(repo, "huge.txt"), []byte(strings.Repeat("a\nb\n", 500_000)), 0o644))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "-m", "A huge file")
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	pid := d.cmd.Process.Pid
	for _, a := range []string{"alice", "bob", "carol"} {
		d.add(a)
	}
	d.sh("alice", "echo alice >> huge.txt && git commit -qam alice")
	d.sh("bob", "sed -i 500000s/^/bob/ huge.txt && git commit -qam bob")
	d.sh("carol", "echo carol >> README.md && git commit -qam carol")
	d.must("merge", "alice")
	r := d.ctl("merge", "bob")
	require.NotZero(t, r.code, r)
	require.Contains(t, r.stderr, "the git commands of agent bob may use 64 MB of memory together (limits.git_memory_mb)")
	d.must("merge", "carol")
	require.Equal(t, pid, d.cmd.Process.Pid)
	require.Zero(t, d.ctl("status").code)
	d.sh("bob", "echo more >> main.txt && git commit -qam more")
}
