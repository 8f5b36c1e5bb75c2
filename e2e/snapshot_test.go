package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// snapshot makes a snapshot of an agent's files.
func (d *daemon) snapshot(agent string, flags ...string) (s api.Snapshot) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "snapshot", "create", agent}, flags...)...)), &s))
	return s
}

// damage changes the stored content of a file of a snapshot.
func (d *daemon) damage(id, path string) {
	d.t.Helper()
	var out struct {
		Files []api.SnapshotFile `json:"files"`
	}
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "snapshot", "show", id, "--files")), &out))
	i := slices.IndexFunc(out.Files, func(f api.SnapshotFile) bool { return f.Path == path })
	require.GreaterOrEqual(d.t, i, 0, path)
	hash := out.Files[i].Hash
	object := d.path("ws", ".polis", "snapshots", "objects", hash[:2], hash[2:])
	require.NoError(d.t, os.Chmod(object, 0o600))
	require.NoError(d.t, os.WriteFile(object, []byte("!\n"), 0o600))
}

// restored restores a snapshot.
func (d *daemon) restored(id string, args ...string) (r api.SnapshotRestored) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "snapshot", "restore", id}, args...)...)), &r))
	return r
}

// seedHash prints the content hash of seed 002 of the tracked and untracked files, made with other
// programs.
const seedHash = `git ls-files --cached --others --exclude-standard | LC_ALL=C sort -u | while IFS= read -r f; do
	if [ -f "$f" ] && [ ! -L "$f" ]; then printf '%s:%s\n' "$f" "$(sha256sum <"$f" | cut -d' ' -f1)"; fi
done | sha256sum | cut -d' ' -f1`

// TestSnapshotsOfAnAgent: a snapshot has the files of one moment, its hash is that of the seed and is
// equal for equal files, and the agent sees what is restored at once, however it read the files before.
// It is the same for a full checkout and for layers.
func TestSnapshotsOfAnAgent(t *testing.T) {
	for _, kind := range []string{"full", "shared"} {
		t.Run(kind, func(t *testing.T) {
			d := startDaemon(t, options{config: fmt.Sprintf("[workspace]\nworktree = %q\n", kind)})
			d.up()
			d.add("first")
			d.add("second")
			one, two := d.snapshot("first"), d.snapshot("second")
			require.Equal(t, one.Hash, two.Hash)
			require.Equal(t, one.Metadata, two.Metadata)
			require.Equal(t, strings.TrimSpace(d.sh("first", seedHash)), one.Hash)
			require.Equal(t, strings.TrimSpace(d.sh("first", "git rev-parse HEAD")), one.Commit)

			d.sh("first", `echo two >> main.txt; rm src/a.txt; mkdir -p new/empty; echo x > new/file; ln -s ../main.txt new/link; chmod 600 run.sh; rm -r docs; echo plain > docs; mkdir -p build; echo ignored > build/out; cat main.txt docs run.sh >/dev/null; ls -lR >/dev/null; test ! -e src/a.txt`)
			work := d.snapshot("first", "--note", "after the work")
			require.NotEqual(t, one.Hash, work.Hash)
			require.Equal(t, strings.TrimSpace(d.sh("first", seedHash)), work.Hash)
			require.Equal(t, "D docs/guide.md\nT docs\n", lines(d.must("snapshot", "diff", one.ID), "docs"))
			require.Equal(t, "x\n", d.must("snapshot", "show", work.ID, "new/file"))
			require.Contains(t, d.must("snapshot", "verify", work.ID), "is intact")
			require.Contains(t, d.must("snapshot", "list", "first"), "after the work")

			r := d.restored(one.ID)
			require.Equal(t, "one\ntwo\nthree\n", d.sh("first", "cat main.txt"))
			require.Equal(t, "a\nguide\n755\n", d.sh("first", "cat src/a.txt docs/guide.md; stat -c %a run.sh; test ! -e new; test -e build/out"))
			require.Empty(t, d.sh("first", "git status --porcelain"))
			require.Equal(t, one.Hash, d.snapshot("first").Hash)
			require.Equal(t, one.Metadata, d.snapshot("first").Metadata)
			d.sh("first", "echo more >> src/a.txt; echo more >> new.txt") // it is its own

			d.restored(r.Before)
			require.Equal(t, "../main.txt\n600\nplain\nx\n", d.sh("first", "readlink new/link; stat -c %a run.sh; cat docs new/file; test -d new/empty; test ! -e src/a.txt; test ! -e new.txt; test -e build/out"))
			require.Equal(t, work.Hash, d.snapshot("first").Hash)
			require.Equal(t, "nothing differs\n", d.must("snapshot", "diff", work.ID))
			require.Equal(t, []string{"src/a.txt"}, d.restored(one.ID, "src/a.txt").Paths)
			require.Equal(t, "a\nx\n", d.sh("first", "cat src/a.txt new/file"))

			require.Equal(t, two.Hash, d.snapshot("second").Hash, "the other agent has its own")
			d.must("agents", "stop", "first")
			d.restored(one.ID)
			require.Equal(t, one.Hash, d.snapshot("first").Hash, "also of an agent that is stopped")
			d.must("agents", "start", "first")
			require.Equal(t, "one\ntwo\nthree\n", d.sh("first", "cat main.txt"))
			d.refused(api.CodeNotFound, "snapshot", "show", "s0000000000")
			d.refused(api.CodeNotFound, "snapshot", "show", one.ID, "none")
			d.refused(api.CodeAgentNotFound, "snapshot", "create", "nobody")
			d.must("snapshot", "rm", one.ID)
			d.refused(api.CodeNotFound, "snapshot", "restore", one.ID)
			require.Contains(t, d.must("snapshot", "verify", two.ID), "is intact", "its contents are needed still")
			require.Contains(t, d.must("events", "--json"), `"snapshot:restored"`)
		})
	}
}

// lines returns the lines of text that end in a path at or below top.
func lines(text, top string) (out string) {
	var at []string
	for line := range strings.Lines(text) {
		if path := strings.TrimSpace(line[1:]); path == top || strings.HasPrefix(path, top+"/") {
			at = append(at, line)
		}
	}
	// The longer path first: it is removed before what replaces its directory.
	for i := len(at) - 1; i >= 0; i-- {
		out += at[i]
	}
	return out
}

// TestASnapshotIsOfOneMoment: the agent writes all the time, and continues. A file that another agent
// has locked is not restored.
func TestASnapshotIsOfOneMoment(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("first")
	d.add("second")
	over := d.later("first", `n=1; while [ ! -e stop ]; do n=$((n+1)); echo $n > .a; mv .a a; echo $n > .b; mv .b b; done`)
	work := make(chan result, 1)
	go func() { work <- over() }()
	a, _ := d.agent("first")
	read := func(name string) string { return readFile(filepath.Join(a.WorktreePath, name)) }
	d.eventually("it writes", func() bool { return len(read("b")) > 2 })
	var ids []string
	for range 3 {
		s := d.snapshot("first")
		var one, two int
		_, err := fmt.Sscan(d.must("snapshot", "show", s.ID, "a")+d.must("snapshot", "show", s.ID, "b"), &one, &two)
		require.NoError(t, err)
		require.Contains(t, []int{0, 1}, one-two, "a is written first")
		now := read("b")
		d.eventually("it continues", func() bool { return read("b") != now })
		ids = append(ids, s.ID)
	}
	if d.topMount("first") == "overlay" {
		d.refused(api.CodeBadState, "snapshot", "restore", ids[0]) // see restorable
	} else {
		d.restored(ids[0], "a", "b")
	}
	now := read("b")
	d.eventually("it continues after a restore", func() bool { return read("b") != now })
	require.NoError(t, os.WriteFile(filepath.Join(a.WorktreePath, "stop"), nil, 0o666))
	r := <-work
	require.Zero(t, r.code, r)

	s := d.snapshot("first")
	d.sh("first", "echo mine > src/a.txt")
	d.must("agents", "stop", "first") // its own leases end
	d.sh("second", "echo other > src/a.txt")
	d.heldBy("second", "src/a.txt")
	d.refused(api.CodeFileLocked, "snapshot", "restore", s.ID)
	d.must("agents", "start", "first")
	require.Equal(t, "mine\n", d.sh("first", "cat src/a.txt"))
	require.Equal(t, "other\n", d.sh("second", "cat src/a.txt"))
	d.heldBy("second", "src/a.txt")
}

// TestAFileChangedBehindTheViewIsNoticed: by root, in the directory below the view, with its time and size
// as before.
func TestAFileChangedBehindTheViewIsNoticed(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("first")
	d.add("second")
	d.must("agents", "stop", "first")
	s := d.snapshot("first")
	require.Contains(t, d.must("snapshot", "verify", s.ID, "--worktree"), "the files of agent first are those of the snapshot")
	require.Contains(t, d.must("snapshot", "verify", s.ID, "--against", "second"), "agent second are those")

	file := d.path("ws", ".polis", "worktrees", "first", "main.txt") // no view is mounted there
	fi, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("one\ntwo\nTHREE\n"), 0o644))
	require.NoError(t, os.Chtimes(file, fi.ModTime(), fi.ModTime()))
	v := d.ctl("--json", "snapshot", "verify", s.ID, "--worktree")
	require.Equal(t, 1, v.code)
	var got api.SnapshotCheck
	require.NoError(t, json.Unmarshal([]byte(v.stdout), &got))
	require.True(t, got.Intact)
	require.Equal(t, "first", got.Against)
	require.Equal(t, 1, got.Changed)
	require.Equal(t, "main.txt", got.Changes[0].Path)
	d.refused(api.CodeSnapshotDiffers, "snapshot", "verify", s.ID, "--worktree")
	d.hinted("polisctl snapshot diff %s", "snapshot", "verify", s.ID, "--worktree")
	d.must("snapshot", "verify", s.ID, "--against", "second")
	d.sh("second", "echo second > other.txt")
	d.hinted("polisctl checkpoint %s, then polisctl snapshot diff %s ID with its ID", "snapshot", "verify", s.ID, "--against", "second")
	later := strings.TrimSpace(d.must("-q", "checkpoint", "second"))
	require.Contains(t, d.must("snapshot", "diff", s.ID, later), "A other.txt")
	d.refused(api.CodeAgentNotFound, "snapshot", "verify", s.ID, "--against", "nobody")
	d.restored(s.ID)
	d.must("snapshot", "verify", s.ID, "--worktree")
}

// TestADamagedSnapshotIsFoundAndNeverRestored.
func TestADamagedSnapshotIsFoundAndNeverRestored(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("first")
	s := d.snapshot("first")
	d.sh("first", "echo later > main.txt; echo later > src/a.txt")
	d.damage(s.ID, "src/a.txt")
	d.restorable("first", s.ID, func() {
		d.hinted("polisctl snapshot verify %s names what is damaged; the agent's files are unchanged", "snapshot", "restore", s.ID)
		d.refused(api.CodeSnapshotCorrupt, "snapshot", "restore", s.ID)
	})
	require.Equal(t, "later\nlater\n", d.sh("first", "cat main.txt src/a.txt"), "nothing was changed")
	v := d.ctl("snapshot", "verify", s.ID)
	require.NotZero(t, v.code)
	require.Contains(t, v.stdout, "damaged: src/a.txt")
	d.restorable("first", s.ID, func() {
		require.Equal(t, []string{"main.txt"}, d.restored(s.ID, "main.txt").Paths)
	})
}

// TestPolisdDiesWhileItRestoresASnapshot at every step: the next one completes the restore, or nothing
// was changed. The state before is never lost.
func TestPolisdDiesWhileItRestoresASnapshot(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, restores: true})
	d.up()
	d.add("first")
	d.sh("first", "echo old > work.txt; echo old > src/a.txt")
	old := d.snapshot("first")
	change := func() api.Snapshot {
		d.sh("first", "echo new > work.txt; rm -f src/a.txt; echo new > other.txt")
		return d.snapshot("first")
	}
	change()
	do := func() result { return d.ctl("snapshot", "restore", old.ID) }
	require.Subset(t, d.steps(do), []string{"cas:synced", "cas:renamed", "snapshot:stored", "restore:noted", "restore:applied"})
	for _, step := range []string{"cas:synced", "cas:renamed", "snapshot:stored", "restore:noted", "restore:applied"} {
		change()
		d.sh("first", "date +%s.%N > unique.txt") // so that there is something to store
		d.dieAt(step, do)
		if strings.HasPrefix(step, "restore:") {
			d.eventually("it is completed after "+step, func() bool { return d.snapshot("first").Hash == old.Hash })
			d.eventually("the note is gone", func() bool { return len(glob(d.path("ws", ".polis", "snapshots", "restoring", "*"))) == 0 })
			require.Equal(t, "old\nold\n", d.sh("first", "cat work.txt src/a.txt; test ! -e other.txt"))
		} else {
			require.Equal(t, "new\nnew\n", d.sh("first", "cat work.txt other.txt; test ! -e src/a.txt"))
		}
		var all struct {
			Snapshots []api.Snapshot `json:"snapshots"`
		}
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "snapshot", "list")), &all))
		for _, s := range all.Snapshots {
			require.Contains(t, d.must("snapshot", "verify", s.ID), "is intact", step)
		}
		require.Empty(t, glob(d.path("ws", ".polis", "snapshots", "stage", "*")), step)
	}
}

// TestASnapshotOnAFullDisk is refused and leaves nothing, and the agent continues.
func TestASnapshotOnAFullDisk(t *testing.T) {
	disk, fill := smallDisk(t)
	d := startDaemon(t, options{config: "[admission]\ndisk_free_mb = 0\n", restores: true})
	d.must("up", "--repo", d.smallRepo(), filepath.Join(disk, "ws"))
	d.add("first")
	d.sh("first", "echo precious > work.txt")
	s := d.snapshot("first")
	d.sh("first", "head -c 3000000 /dev/urandom > large.txt; echo later > work.txt")
	filler := fill()
	d.refused(api.CodeStateNotSaved, "snapshot", "create", "first")
	d.refused(api.CodeStateNotSaved, "snapshot", "restore", s.ID)
	d.refused(api.CodeStateNotSaved, "checkpoint", "first")
	require.Empty(t, glob(filepath.Join(disk, "ws", ".polis", "snapshots", "stage", "*")))
	require.Equal(t, "later\n", d.sh("first", "cat work.txt"), "it is not left frozen")
	require.NoError(t, os.Remove(filler))
	require.NotZero(t, d.checkpoint("first").Files, "and the next one reads all")
	d.restored(s.ID)
	require.Equal(t, "precious\n", d.sh("first", "cat work.txt; test ! -e large.txt"))
}
