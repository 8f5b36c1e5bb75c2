package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	for _, layers := range []string{"view", "auto"} {
		t.Run(layers, func(t *testing.T) { firstChangeOnAFullDisk(t, layers) })
	}
}

func firstChangeOnAFullDisk(t *testing.T, layers string) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: fmt.Sprintf("[admission]\ndisk_free_mb = 0\n[workspace]\nworktree = \"shared\"\nlayers = %q\n", layers)})
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
	for _, script := range []string{"sed -i s/0/1/ big.txt", "cp big.txt copy.txt", "python3 -c 'import mmap,os; f=os.open(\"big.txt\",os.O_RDWR); mmap.mmap(f,0)[0:1]=b\"x\"'"} {
		require.NotZero(t, d.exec("ann", "sh", "-c", script).code, script)
		require.Equal(t, text, d.sh("ann", "cat big.txt"), script)
	}
	require.NoError(t, os.Remove(filler))
	d.sh("ann", "rm -f copy.txt sed*; echo more >> big.txt")
	require.Equal(t, text+"more\n", d.sh("ann", "cat big.txt"))
	require.Equal(t, " M big.txt\n", d.sh("ann", "git status --porcelain"))
}

// A setup command that fills the disk fails with its log. Agents start without, and nothing of the run
// is left; it is made when there is room.
func TestASetupOnAFullDisk(t *testing.T) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: "[admission]\ndisk_free_mb = 0\n[workspace]\nworktree = \"shared\"\n[workspace.setup]\nrun = \"sh ci.sh\"\ninputs = [\"deps.lock\"]\negress = \"none\"\n"})
	repo := d.smallRepo()
	d.seed(repo, map[string]string{"deps.lock": "left\n", "ci.sh": "mkdir -p node_modules; head -c 4000000 /dev/zero > node_modules/x\n"})
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "Dependencies")
	d.giveAway(repo)
	d.must("up", "--repo", repo, filepath.Join(disk, "ws"))
	// The disk is smaller than what a run must leave free, which is measured from time to time: the first
	// run can fail or not.
	d.eventually("the first run to end", func() bool {
		s := d.setupStatus()
		return s.RunningSince == nil && (s.FailedAt != nil || len(s.Results) > 0)
	})
	setups := filepath.Join(disk, "ws", ".polis", "setups")
	before := picture(t, setups)
	for room, what := range []string{"the run begins with none", "the command uses it up"} {
		filler := fill()
		fi, err := os.Stat(filler)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(filler, fi.Size()-int64(room)<<21))
		require.NotZero(t, d.ctl("setup", "run", "--again").code, what)
		require.NotNil(t, d.setupStatus().FailedAt, what)
		require.Equal(t, names(before), names(picture(t, setups)), "%s: an earlier result stays, and nothing else", what)
		require.NotContains(t, strings.Join(d.mounts(), "\n"), "/merged", what)
		require.NoError(t, os.Remove(filler))
	}
	d.add("ann")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("ann", "cat main.txt"))
}

// names are the paths of a picture.
func names(picture map[string]string) []string { return slices.Sorted(maps.Keys(picture)) }

// TestPolisdDiesWhileAnOverlayIsPutAboveAView: the next start has whole files in either order.
func TestPolisdDiesWhileAnOverlayIsPutAboveAView(t *testing.T) {
	d := above(t, options{failpoints: true})
	add := func() result { return d.ctl("agents", "add", "ann", "--base", "custom") }
	d.dieAt("layers:above", add)
	require.Empty(t, d.report().Errors)
	d.nothingOf("ann", "layers:above")
	require.Zero(t, d.overlays())
	require.Zero(t, add().code)
	require.Equal(t, "overlay", d.topMount("ann"))
	d.sh("ann", "echo mine > main.txt; rm src/b.txt; echo own > own")
	d.must("agents", "stop", "ann")
	d.dieAt("layers:above", func() result { return d.ctl("agents", "start", "ann") })
	d.eventually("ann to start", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	require.Equal(t, "overlay", d.topMount("ann"))
	require.Equal(t, " M main.txt\n D src/b.txt\n?? own\nmine\n", d.sh("ann", "git status --porcelain; cat main.txt"))
}

// TestPolisdDiesWhileItRepairsABase: the next one begins again, before an agent gets the base.
func TestPolisdDiesWhileItRepairsABase(t *testing.T) {
	d := layered(t, options{failpoints: true})
	d.add("ann")
	d.sh("ann", "echo mine > README.md")
	d.must("agents", "stop", "ann")
	d.stop()
	dir := d.bases()[0]
	require.NoError(t, os.Remove(filepath.Join(dir, "record")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tree", "main.txt"), []byte("damaged"), 0o644))
	d.start()
	d.dieAt("base:unrecorded", func() result { return d.ctl("agents", "start", "ann") })
	require.NoFileExists(t, filepath.Join(dir, "record"))
	d.eventually("ann to start", func() bool { return d.ctl("agents", "start", "ann").code == 0 })
	require.Equal(t, " M README.md\none\ntwo\nthree\n", d.sh("ann", "git status --porcelain; cat main.txt"))
}
