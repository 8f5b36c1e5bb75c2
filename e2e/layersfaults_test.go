package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPolisdDiesWhileABaseIsMade at every step of it, and of the layers above: the next start leaves
// nothing half made, and the next agent gets whole files.
func TestPolisdDiesWhileABaseIsMade(t *testing.T) {
	d := layered(t, options{failpoints: true})
	add := func() result { return d.ctl("agents", "add", "ann", "--base", "custom") }
	for _, step := range []string{"base:directory", "base:written", "base:filled", "base:recorded", "layers:directories", "layers:claimed", "layers:indexed", "layers:mounted"} {
		d.dieAt(step, add)
		require.Empty(t, d.report().Errors, step)
		d.nothingOf("ann", step)
		require.Empty(t, glob(d.path("ws", ".polis", "layers", "*")), step)
		require.Zero(t, d.overlays(), step)
		r := add()
		require.Zero(t, r.code, "%s: %s", step, r)
		require.Equal(t, "one\ntwo\nthree\n", d.sh("ann", "git status --porcelain; cat main.txt"), step)
		require.Empty(t, glob(d.path("ws", ".polis", "bases", "*.new")), step)
		d.must("agents", "remove", "ann", "--force")
		d.must("maintenance", "--now")
		require.Empty(t, d.bases(), step)
	}
}

// TestADamagedBaseIsRepaired before an agent gets it, and what agents changed above it stays.
func TestADamagedBaseIsRepaired(t *testing.T) {
	d := layered(t, options{})
	d.add("ann")
	d.sh("ann", "echo mine > README.md")
	d.must("agents", "stop", "ann")
	d.stop()
	dir := d.bases()[0]
	require.NoError(t, os.Remove(filepath.Join(dir, "record"))) // as a crash of the machine leaves it
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tree", "main.txt"), nil, 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, "tree", "src", "a.txt")))
	d.start()
	d.eventually("ann to start", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	require.Equal(t, " M README.md\n", d.sh("ann", "git status --porcelain"))
	require.Equal(t, "one\ntwo\nthree\na\n", d.sh("ann", "cat main.txt src/a.txt"))
	require.Contains(t, d.log(), "base tree was damaged")

	// One that was removed is made again.
	d.stop()
	require.NoError(t, os.RemoveAll(dir))
	d.start()
	d.eventually("ann to start again", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	require.Equal(t, " M README.md\n", d.sh("ann", "git status --porcelain"))
}

// TestAFirstChangeOnAFullDisk fails with ENOSPC, and leaves the file of the base.
func TestAFirstChangeOnAFullDisk(t *testing.T) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: "[admission]\ndisk_free_mb = 0\n[workspace]\nworktree = \"shared\"\n"})
	repo := d.smallRepo()
	text := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB
	require.NoError(t, os.WriteFile(filepath.Join(repo, "big.txt"), []byte(text), 0o644))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "big")
	d.giveAway(repo)
	d.must("up", "--repo", repo, filepath.Join(disk, "ws"))
	d.add("ann")
	filler := fill()
	r := d.exec("ann", "env", "LC_ALL=C", "sh", "-c", "echo more >> big.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "No space left on device")
	require.Equal(t, text, d.sh("ann", "cat big.txt"), "nothing is torn")
	require.NoError(t, os.Remove(filler))
	d.sh("ann", "echo more >> big.txt")
	require.Equal(t, text+"more\n", d.sh("ann", "cat big.txt"))
	require.Equal(t, " M big.txt\n", d.sh("ann", "git status --porcelain"))
}
