package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// last returns the newest checkpoint of an agent.
func (d *daemon) last(agent string) api.Snapshot {
	d.t.Helper()
	all := d.timeline(agent)
	require.NotEmpty(d.t, all)
	return all[len(all)-1]
}

// TestCheckpointsBeforeWhatChangesABranch: before a merge and before a rebase, with what they were made
// for, and people go back by that name.
func TestCheckpointsBeforeWhatChangesABranch(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"24h\"\n"})
	d.up()
	d.add("alice")
	d.sh("alice", "echo one >>main.txt; git commit -qam one; echo not committed >notes")
	d.must("merge", "alice")
	merge := d.last("alice")
	require.Equal(t, []any{api.SnapshotByMerge, "into main"}, []any{merge.Why, merge.Note})
	require.Regexp(t, `(?m)^`+merge.ID+` .*before merge `+merge.For, d.must("timeline", "alice"))
	d.sh("alice", "echo later >notes; echo two >new; git add new; git commit -qm two")
	d.must("agents", "rebase", "alice")
	rebase := d.last("alice")
	require.Equal(t, api.SnapshotByRebase, rebase.Why)
	require.Contains(t, d.must("timeline", "alice"), "before a rebase")
	d.rewind("alice", "--to", "before merge "+merge.For)
	require.Equal(t, "not committed\n", d.sh("alice", "cat notes; ! test -e new"))
	d.rewind("alice", "--to", "before rebase")
	require.Equal(t, "later\ntwo\n", d.sh("alice", "cat notes new"))

	// A merge of an agent that does not run has one too, and its tree is compared.
	d.must("agents", "stop", "alice")
	require.NoError(t, os.WriteFile(filepath.Join(d.path("ws", ".polis", "worktrees", "alice"), "notes"), []byte("stopped"), 0o644))
	d.must("merge", "alice")
	stopped := d.last("alice")
	require.Equal(t, api.SnapshotByMerge, stopped.Why)
	require.NotEqual(t, merge.For, stopped.For)
	require.Equal(t, "stopped", d.must("snapshot", "show", stopped.ID, "notes"))
}

// TestACheckpointBeforeATool: where the hook of the agent's program reports a call that can change files,
// there is one, a storm of calls has few, and calls that only read have none.
func TestACheckpointBeforeATool(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"24h\"\n[roles.worker]\nwrite = [\"**\"]\n[roles.worker.tools]\nauto_approve = [\"read\", \"edit\", \"shell\"]\nauto_deny = [\"shell(make deploy)\"]\n"})
	d.up()
	d.add("alice", "--role", "worker")
	ask := func(tool, input string) string {
		return fmt.Sprintf("polisctl ask --tool %s --input '%s'; ", tool, input)
	}
	tools := func() (out []string) {
		for _, s := range d.timeline("alice") {
			if s.Why == api.SnapshotByTool {
				out = append(out, s.For+": "+s.Note)
			}
		}
		return out
	}
	d.sh("alice", "echo 1 >>main.txt; "+ask("Read", `{"file_path":"main.txt"}`))
	require.Empty(t, tools())
	require.NotZero(t, d.exec("alice", "sh", "-c", ask("Bash", `{"command":"make deploy"}`)).code)
	require.Empty(t, tools(), "it does not run")
	d.sh("alice", ask("Bash", `{"command":"make test"}`)+"echo 2 >>main.txt")
	require.Equal(t, []string{"Bash: make test"}, tools())
	require.Contains(t, d.must("timeline", "alice"), "before tool Bash")
	r := d.rewind("alice", "--to", "before tool Bash")
	require.Equal(t, []string{"main.txt"}, r.Paths)

	began := time.Now()
	d.sh("alice", "for i in $(seq 60); do echo $i >>main.txt; polisctl ask --tool Edit --input '{\"file_path\":\"main.txt\"}' >/dev/null; done")
	require.LessOrEqual(t, len(tools()), 2+int(time.Since(began)/time.Second), "at most one in a second")
	d.sh("alice", `for op in tool steal ''; do curl -sS --unix-socket /run/polis/api.sock -d "{\"op\":\"$op\"}" http://polis/v1/timeline | grep -q 'must be list, checkpoint, rewind'; done`)
}

// TestAnAgentRewindsItself, and nobody else, by its rules, and not in a storm.
func TestAnAgentRewindsItself(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"0s\"\n"})
	d.up()
	d.add("alice", "--write", "**", "--deny", "run.sh")
	d.add("bob")
	// own runs polisctl in alice's sandbox, again while that is too early.
	own := func(args string) (r result) {
		d.eventually("it is its turn", func() bool {
			r = d.exec("alice", "sh", "-c", "polisctl --json "+args)
			return !strings.Contains(r.stderr, "too often")
		})
		return r
	}
	done := func(args string, into any) {
		r := own(args)
		require.Zero(t, r.code, "%s: %s", args, r)
		require.NoError(t, json.Unmarshal([]byte(r.stdout), into))
	}
	var first, second api.Snapshot
	d.sh("alice", "echo good >>main.txt; echo kept >kept")
	done("checkpoint --note works", &first)
	require.Equal(t, []any{api.SnapshotByAgent, "works", true}, []any{first.Why, first.Note, first.ByAgent})
	d.sh("alice", "echo bad >>main.txt; rm -r src; echo new >new")
	var back api.SnapshotRestored
	done("rewind --dry-run", &back)
	require.Equal(t, []any{"", 8}, []any{back.Before, back.Changed})
	done("rewind main.txt src", &back)
	require.Equal(t, "good\nnew\n", d.sh("alice", "tail -n1 main.txt; cat new; test -e src/a.txt"))
	var undone api.SnapshotRestored
	done("rewind --to "+back.Before, &undone)
	require.Equal(t, "bad\n", d.sh("alice", "tail -n1 main.txt; ! test -e src"))
	var list struct{ Checkpoints []api.Snapshot }
	done("timeline", &list)
	require.Len(t, list.Checkpoints, 3)
	require.Contains(t, d.must("timeline", "alice"), "before its own rewind")

	// It has no checkpoint of another agent, and none of one that had its name.
	other := d.checkpoint("bob")
	require.Contains(t, own("rewind --to "+other.ID).stderr, "NOT_FOUND")
	require.Contains(t, own("timeline bob").stderr, "no argument in a sandbox")

	// Leases of others hold, and so do its rules for what a user has changed.
	d.must("unlock", "--break", "main.txt")
	d.sh("bob", "polisctl lock main.txt")
	require.Contains(t, own("rewind --to "+first.ID).stderr, "FILE_LOCKED")
	d.must("unlock", "--break", "main.txt")
	d.must("agents", "stop", "alice")
	require.NoError(t, os.WriteFile(filepath.Join(d.path("ws", ".polis", "worktrees", "alice"), "run.sh"), []byte("by the user"), 0o755))
	d.must("agents", "start", "alice")
	refused := own("rewind --to " + first.ID)
	require.Contains(t, refused.stderr, "UNDECLARED_WRITE")
	require.NotContains(t, refused.stderr, "run.sh")
	require.Equal(t, "bad\n", d.sh("alice", "tail -n1 main.txt"))
	done("rewind --to "+first.ID+" main.txt", &back)
	require.Equal(t, "good\n", d.sh("alice", "tail -n1 main.txt"))

	// A storm, of many processes: few are done, the others are refused, and polisd answers others.
	d.sh("alice", "echo storm >>main.txt")
	before := len(d.timeline("alice"))
	began := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			d.exec("alice", "sh", "-c", `for i in $(seq 25); do echo $$ $i >>main.txt; curl -sS --unix-socket /run/polis/api.sock -d '{"op":"rewind"}' http://polis/v1/timeline; done`)
		})
	}
	wg.Wait()
	require.LessOrEqual(t, len(d.timeline("alice"))-before, 2+int(time.Since(began)/(2*time.Second)))

	// Another agent of the same name.
	done("checkpoint", &second)
	d.must("agents", "remove", "alice", "--force")
	d.add("alice", "--write", "**")
	done("timeline", &list)
	require.Empty(t, list.Checkpoints)
	require.Contains(t, own("rewind --to "+second.ID).stderr, "NOT_FOUND")
}

// TestAnUpdateToTheTargetIsNoLossOfWhatChanged: before a task the branch is brought forward below the view,
// and the checkpoint before the task reads only what changed.
func TestAnUpdateToTheTargetIsNoLossOfWhatChanged(t *testing.T) {
	d := startDaemon(t, options{config: "[snapshots]\nevery = \"24h\"\n"})
	repo := d.up()
	d.worker("alice")
	run := func(script string) api.Snapshot {
		d.must("run", "--wait", "alice", script)
		all := d.timeline("alice")
		for i := len(all) - 1; ; i-- {
			if all[i].Why == api.SnapshotByTask {
				return all[i]
			}
		}
	}
	run("true")
	require.Equal(t, []any{"", 0}, []any{run("true").Whole, run("true").ChangedCount}, "the target has not moved")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "main.txt"), []byte("of the user\n"), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(repo, "fresh", "dir"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(repo, "fresh", "dir", "file"), nil, 0o644))
	git(t, repo, "rm", "-qr", "docs")
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "by the user")
	s := run("true")
	require.Empty(t, s.Whole)
	require.Equal(t, []string{"docs", "fresh", "fresh/dir", "fresh/dir/file", "main.txt"}, s.Changed)
	var shown api.Snapshot
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "snapshot", "show", s.ID)), &shown))
	now := d.snapshot("alice")
	require.Equal(t, []string{now.Hash, now.Metadata}, []string{shown.Hash, shown.Metadata})
}
