package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// checkpoint makes a checkpoint of an agent.
func (d *daemon) checkpoint(agent string) (s api.Snapshot) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "checkpoint", agent)), &s))
	return s
}

// timeline lists the checkpoints of an agent.
func (d *daemon) timeline(agent string) []api.Snapshot {
	d.t.Helper()
	var out struct {
		Checkpoints []api.Snapshot `json:"checkpoints"`
	}
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "timeline", agent)), &out))
	return out.Checkpoints
}

// rewind rewinds an agent.
func (d *daemon) rewind(agent string, args ...string) (r api.SnapshotRestored) {
	d.t.Helper()
	args = append([]string{"rewind", agent}, args...)
	if d.topMount(agent) == "overlay" { // see restorable
		d.refused(api.CodeBadState, args...)
	}
	d.uncovered(agent, func() {
		require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json"}, args...)...)), &r))
	})
	return r
}

// TestACheckpointHasWhatTheViewSaw: a checkpoint after the first reads only what changed, whichever way
// a program changed it, and each can be reached again. It is the same for a full checkout and for
// layers.
func TestACheckpointHasWhatTheViewSaw(t *testing.T) {
	for _, kind := range []string{"full", "shared"} {
		t.Run(kind, func(t *testing.T) {
			d := startDaemon(t, options{config: fmt.Sprintf("[workspace]\nworktree = %q\n[snapshots]\nevery = \"0s\"\n", kind)})
			d.up()
			d.add("alice")
			first := d.checkpoint("alice")
			require.Equal(t, "it is the first checkpoint", first.Whole)
			require.Equal(t, first.ID, d.checkpoint("alice").ID, "nothing has changed")
			want := map[string]string{first.ID: d.snapshot("alice").Hash}
			meta := map[string]string{first.ID: d.snapshot("alice").Metadata}
			ids := []string{first.ID}
			for _, c := range []struct {
				script string
				paths  []string
			}{
				{`echo two >>main.txt`, []string{"main.txt"}},
				{`rm src/a.txt; mkdir -p new/empty; echo x >new/file; ln -s ../main.txt new/link`, []string{"new", "new/empty", "new/file", "new/link", "src/a.txt"}},
				{`chmod 600 run.sh; rm -r docs; echo plain >docs; mkdir -p build; echo ignored >build/out`, []string{"docs", "docs/guide.md", "run.sh"}},
				{`python3 -c 'import mmap,os
f=open("main.txt","r+b"); m=mmap.mmap(f.fileno(),3); f.close(); m[0:3]=b"MAP"; m.flush()'`, []string{"main.txt"}},
				{`mv new old; sed -i s/x/y/ old/file; git add -A; git commit -qm work`, nil},
				{`git checkout -q HEAD~1 -- docs 2>/dev/null || git checkout -q HEAD~1; touch main.txt`, nil},
			} {
				d.sh("alice", c.script)
				s := d.checkpoint("alice")
				require.Empty(t, s.Whole, c.script)
				if c.paths != nil {
					require.Equal(t, c.paths, s.Changed, c.script)
				}
				now := d.snapshot("alice")
				require.NotEmpty(t, now.Hash)
				var shown api.Snapshot
				require.NoError(t, json.Unmarshal([]byte(d.must("--json", "snapshot", "show", s.ID)), &shown))
				require.Equal(t, []string{now.Hash, now.Metadata}, []string{shown.Hash, shown.Metadata}, c.script)
				ids, want[s.ID], meta[s.ID] = append(ids, s.ID), now.Hash, now.Metadata
			}
			for _, id := range []string{ids[1], ids[4], ids[0], ids[3], ids[2], ids[5]} {
				d.rewind("alice", "--to", id)
				now := d.snapshot("alice")
				require.Equal(t, []string{want[id], meta[id]}, []string{now.Hash, now.Metadata}, id)
			}
			now := d.checkpoint("alice")
			require.Empty(t, now.Whole, "a rewind notes what it changes")
			require.Equal(t, "M main.txt\n", d.must("diff", "alice", "--from", ids[0], "--to", ids[1]))
			d.sh("alice", "echo more >another")
			require.Equal(t, "A another\n", d.must("diff", "alice", "--from", now.ID))
			d.checkpoint("alice")

			// polisd dies: the shim has the set. The shim dies: all is read, and the reason is there.
			d.sh("alice", "echo restart >>main.txt")
			require.Error(t, d.signal(syscall.SIGKILL))
			d.start()
			s := d.checkpoint("alice")
			require.Equal(t, []any{"", []string{"main.txt"}}, []any{s.Whole, s.Changed})
			d.must("agents", "stop", "alice")
			d.must("agents", "start", "alice")
			d.sh("alice", "echo again >>main.txt")
			require.Contains(t, d.checkpoint("alice").Whole, "another process")
			require.Contains(t, d.must("timeline", "alice"), "before a rewind")
		})
	}
}

// TestARewindFindsNoMixedState: the agent writes two equal files, over and over, while it is rewound.
func TestARewindFindsNoMixedState(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\n", restores: true})
	d.up()
	d.worker("alice")
	d.sh("alice", "mkdir -p two; echo start >two/a; echo start >two/b")
	first := d.checkpoint("alice")
	d.must("agents", "run", "alice", `i=0; while true; do i=$((i+1)); echo $i >two/c; echo $i >two/d; done`)
	tree := func(names ...string) (out []string) {
		for _, n := range names {
			b, err := os.ReadFile(filepath.Join(d.path("ws", ".polis", "worktrees", "alice"), n))
			require.NoError(t, err)
			out = append(out, strings.TrimSpace(string(b)))
		}
		return out
	}
	for range 5 {
		time.Sleep(50 * time.Millisecond)
		s := d.checkpoint("alice")
		c, dd := d.must("snapshot", "show", s.ID, "two/c"), d.must("snapshot", "show", s.ID, "two/d")
		var x, y int
		_, _ = fmt.Sscan(c, &x)
		_, _ = fmt.Sscan(dd, &y)
		require.True(t, x == y || x == y+1 || x == 0 || y == 0, "%q %q", c, dd)
		d.rewind("alice", "--to", first.ID, "two/a", "two/b")
		require.Equal(t, []string{"start", "start"}, tree("two/a", "two/b"))
	}
}

// TestCheckpointsAreMadeByThemselves: before a task, and after a time in which something changed.
func TestCheckpointsAreMadeByThemselves(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"1s\"\n", restores: true})
	d.up()
	d.worker("alice")
	d.must("agents", "run", "alice", "echo task >made; sleep 60")
	require.Eventually(t, func() bool {
		for _, s := range d.timeline("alice") {
			if s.Why == api.SnapshotByTime && len(s.Changed) == 1 && s.Changed[0] == "made" {
				return true
			}
		}
		return false
	}, 30*time.Second, 100*time.Millisecond)
	all := d.timeline("alice")
	require.Equal(t, []any{api.SnapshotByTask, 1}, []any{all[0].Why, all[0].Task})
	r := d.rewind("alice", "--to", "before task 1")
	require.Equal(t, []string{"made"}, r.Paths)
	require.NoFileExists(t, filepath.Join(d.path("ws", ".polis", "worktrees", "alice"), "made"))
	d.rewind("alice", "--to", r.Before)
	require.FileExists(t, filepath.Join(d.path("ws", ".polis", "worktrees", "alice"), "made"))

	var shown api.Snapshot
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "snapshot", "show", all[0].ID)), &shown))
	d.eventually("each has a receipt", func() bool {
		out := d.must("--json", "receipts", "show", "alice", "--type", api.ReceiptCheckpoint)
		return strings.Contains(out, all[0].ID) && strings.Contains(out, shown.Hash) && strings.Contains(out, all[1].ID)
	})
	d.must("agents", "stop", "alice")
	var replayed api.ReceiptsReplay
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "receipts", "replay")), &replayed))
	require.NotNil(t, replayed.Agents[0].Checkpoint)
}

// TestPolisdDiesWhileItMakesACheckpoint at every step: no change is lost for the next one.
func TestPolisdDiesWhileItMakesACheckpoint(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "[snapshots]\nevery = \"0s\"\n"})
	d.up()
	d.add("alice")
	d.checkpoint("alice")
	do := func() result { return d.ctl("checkpoint", "alice") }
	d.sh("alice", "echo first >work.txt")
	steps := []string{"checkpoint:read", "cas:synced", "cas:renamed", "snapshot:stored", "checkpoint:done", "checkpoint:hashed"}
	require.Subset(t, d.steps(func() result {
		r := do()
		d.eventually("its state has its hash", func() bool { return strings.Contains(readFile(d.path("failpoint.log")), "checkpoint:hashed\n") })
		return r
	}), steps)
	for _, step := range steps {
		d.sh("alice", "date +%s.%N >work.txt; date +%s.%N >"+strings.ReplaceAll(step, ":", "-"))
		d.dieAt(step, do)
		d.checkpoint("alice")
		all := d.timeline("alice")
		last := all[len(all)-1]
		require.Empty(t, last.Whole, step)
		var shown api.Snapshot
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "snapshot", "show", last.ID)), &shown))
		require.Equal(t, d.snapshot("alice").Hash, shown.Hash, step)
		for _, s := range all {
			require.Contains(t, d.must("snapshot", "verify", s.ID), "is intact", step)
		}
		d.eventually("each checkpoint has a receipt: "+step, func() bool {
			has := d.must("--json", "receipts", "show", "alice", "-n", "10000", "--type", api.ReceiptCheckpoint)
			return !slices.ContainsFunc(all, func(s api.Snapshot) bool {
				return s.Why == api.SnapshotByRequest && !strings.Contains(has, `"`+s.ID+`"`)
			})
		})
	}
}

// TestARewindTakesNoLeaseOfAnother: it names the holder, and changes nothing.
func TestARewindTakesNoLeaseOfAnother(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\n", restores: true})
	d.up()
	d.add("alice")
	d.add("bob")
	first := d.checkpoint("alice")
	d.sh("alice", "echo alice >>main.txt; echo alice >>run.sh")
	d.must("unlock", "--break", "main.txt")
	d.sh("bob", "polisctl lock main.txt")
	e := d.refused(api.CodeFileLocked, "rewind", "alice", "--to", first.ID)
	require.Contains(t, e.Message+e.Hint, "bob")
	require.Equal(t, "alice\nalice\n", d.sh("alice", "tail -n1 main.txt; tail -n1 run.sh"))
}

// TestACheckpointDoesNotResetABreaker: an agent is held still at each checkpoint, and what it deleted
// before counts nevertheless.
func TestACheckpointDoesNotResetABreaker(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[snapshots]\nevery = \"0s\"\n[roles.x.breakers]\ndeletions = 100\n"})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", "read go; rm many/1*; read go; rm -rf many; exec sleep 1000")
	d.sh("wild", `mkdir -p many && for i in $(seq 100 159) $(seq 200 259); do echo $i >many/$i; done && git add -A && git commit -qm many`)
	before := d.checkpoint("wild")
	d.must("agents", "start", "--program", "wild")
	d.must("send", "wild", "go")
	a, _ := d.agent("wild")
	d.eventually("60 are deleted", func() bool { return len(glob(filepath.Join(a.WorktreePath, "many", "*"))) == 60 })
	require.NotEmpty(t, d.checkpoint("wild").ID)
	d.must("send", "wild", "go")
	d.eventually("it is frozen", func() bool { w := d.waiting("wild"); return w != nil && w.For == api.WaitingThaw })

	// The case offers the last checkpoint from before what the breaker counted, and the frozen agent is
	// brought back to that.
	var found []api.Case
	d.eventually("its case", func() bool {
		var out struct{ Cases []api.Case }
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "patrol", "cases")), &out))
		found = out.Cases
		return len(found) == 1
	})
	require.Equal(t, before.ID, found[0].Rewind)
	require.Contains(t, d.must("patrol", "show", found[0].ID), "polisctl rewind wild --to "+before.ID)
	require.NotEmpty(t, d.rewind("wild", "--to", found[0].Rewind).Before)
	require.Len(t, glob(filepath.Join(a.WorktreePath, "many", "*")), 120)
}

// TestACheckpointHasIgnoredFilesThatAreConfigured: a file with passwords and a database come back with a rewind, and what
// git ignores besides stays as it is.
func TestACheckpointHasIgnoredFilesThatAreConfigured(t *testing.T) {
	for _, kind := range []string{"full", "shared"} {
		t.Run(kind, func(t *testing.T) {
			d := startDaemon(t, options{config: fmt.Sprintf("[workspace]\nworktree = %q\n[snapshots]\nevery = \"0s\"\nignored = [\".env\", \"data/db/**\"]\n", kind)})
			d.up()
			d.add("alice")
			d.sh("alice", `printf '.env\ndata/\ndeps/\n' > .gitignore; mkdir -p data/db/x deps sub; for f in .env sub/.env data/db/x/1 data/log deps/a; do echo old > $f; done`)
			s := d.checkpoint("alice")
			require.Equal(t, []string{".env", "data/db/**"}, s.Ignored)
			d.sh("alice", `for f in .env sub/.env data/db/x/1 data/log deps/a; do echo new > $f; done; echo since > data/db/2; rm -r data/db/x`)
			before := d.checkpoint("alice")
			require.Empty(t, before.Whole, "only what changed is read")
			state := `cat .env sub/.env data/db/x/1 data/log deps/a 2>&1 | tr '\n' ' '; ls data/db`
			d.rewind("alice", "--to", s.ID)
			require.Equal(t, "old old old new new x", strings.TrimSpace(d.sh("alice", state)))
			d.rewind("alice", "--to", before.ID)
			require.Contains(t, d.sh("alice", state), "new new cat: data/db/x/1: No such file or directory new new 2")
		})
	}
}
