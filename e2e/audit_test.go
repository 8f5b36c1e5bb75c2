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

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

const auditFull = "[roles.audited]\nread = [\"**\"]\nwrite = [\"**\"]\naudit = \"full\"\n"

// opens returns what receipts say that an agent has opened and changed, oldest first.
func (d *daemon) opens(agent string) (out []api.Open) {
	d.t.Helper()
	for _, r := range d.receipts(agent, "--type", api.ReceiptOpens).Receipts {
		var data struct{ Opens []api.Open }
		require.NoError(d.t, json.Unmarshal(r.Data, &data))
		out = append(out, data.Opens...)
	}
	return out
}

// opened returns the record of an operation on a path; nil if there is none.
func (d *daemon) opened(agent, op, path string) *api.Open {
	d.t.Helper()
	for _, o := range d.opens(agent) {
		if o.Op == op && o.Path == path {
			return &o
		}
	}
	return nil
}

// TestAuditRecordsWhatAnAgentOpens: reads and changes, with program, command line and task, once, also
// across a kill of polisd and the end of the agent; an agent without it records nothing.
func TestAuditRecordsWhatAnAgentOpens(t *testing.T) {
	d := startDaemon(t, options{config: auditFull + "\n[workspace]\nworktree = \"shared\"\nlayers = \"auto\"\n"})
	d.up()
	require.Equal(t, "full", d.add("alice", "--role", "audited", "--", "sh", "-c", "eval \"$0\"").Audit)
	d.add("bob")
	require.Contains(t, d.must("status"), "full for alice")
	require.NotEqual(t, "overlay", d.topMount("alice"), "an overlay above the view would hide reads from it")
	d.sh("alice", "cat main.txt; echo x > new.txt; mv new.txt newer.txt; ln newer.txt other.txt; rm other.txt; printf x > $(printf 'bad\\377'); git add -A; git commit -qm work; mkdir dir; chmod 700 dir; setfattr -n user.x -v 1 dir; ln -s x link")
	d.sh("bob", "cat main.txt; echo x > bob.txt")
	d.eventually("the opens are recorded", func() bool { return d.opened("alice", "symlink", "link") != nil })
	read := d.opened("alice", "open", "main.txt")
	require.NotNil(t, read)
	require.False(t, read.Write)
	require.Equal(t, "cat", filepath.Base(read.Program))
	require.Equal(t, "cat main.txt", read.Command)
	require.NotZero(t, read.PID)
	require.Equal(t, "newer.txt", d.opened("alice", "rename", "new.txt").To)
	for op, path := range map[string]string{"create": "new.txt", "link": "other.txt", "unlink": "other.txt", "mkdir": "dir", "setattr": "dir", "setxattr": "dir"} {
		require.NotNil(t, d.opened("alice", op, path), "%s %s", op, path)
	}
	require.NotNil(t, d.opened("alice", "create", `"bad\xff"`))
	require.True(t, slices.ContainsFunc(d.opens("alice"), func(o api.Open) bool { return strings.Contains(o.Path+o.To, "refs/heads/") }), "the branch got its commit")
	require.Empty(t, d.opens("bob"))

	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.sh("alice", "cat docs/guide.md")
	d.eventually("opens of the next polisd are recorded", func() bool { return d.opened("alice", "open", "docs/guide.md") != nil })
	n := 0
	for _, o := range d.opens("alice") {
		if o.Op == "open" && o.Path == "main.txt" && o.Command == "cat main.txt" {
			n += max(o.Count, 1)
		}
	}
	require.Equal(t, 1, n, "what the earlier polisd stored is not stored again")

	d.must("agents", "run", "alice", "cat main.txt; echo done > result.txt; trap 'cat main.txt > last.txt; exit' TERM; while :; do sleep 0.1; done")
	d.eventually("the task runs", func() bool { return d.opened("alice", "create", "result.txt") != nil })
	require.NotEmpty(t, d.opened("alice", "create", "result.txt").Task)
	d.must("agents", "stop", "alice")
	require.NotNil(t, d.opened("alice", "create", "last.txt"), "what was opened while the shim stopped is recorded")
	d.must("agents", "start", "--program", "alice")
	d.sh("alice", "cat main.txt")
	d.verifiedReceipts()
}

// TestAuditSaysWhatAKilledShimLost.
func TestAuditSaysWhatAKilledShimLost(t *testing.T) {
	d := startDaemon(t, options{config: auditFull})
	d.up()
	a := d.add("alice", "--role", "audited")
	d.sh("alice", "cat main.txt")
	require.NoError(t, syscall.Kill(a.ShimPID, syscall.SIGKILL))
	d.eventually("the log reports it", func() bool {
		return strings.Contains(d.must("receipts", "show", "alice", "--type", api.ReceiptMissed), "shim was killed")
	})
	d.verifiedReceipts()
}

// TestAuditThatCannotBeStored: with "deny" an agent opens nothing more when the record is full, and why
// reports it; with "drop" it continues, and the log has how many are missing.
func TestAuditThatCannotBeStored(t *testing.T) {
	for _, mode := range []string{"deny", "drop"} {
		t.Run(mode, func(t *testing.T) {
			disk, fill := smallDisk(t)
			d := startDaemon(t, options{config: auditFull + fmt.Sprintf("[receipts]\naudit_on_full = %q\n", mode)})
			d.up()
			d.add("alice", "--role", "audited")
			d.must("agents", "stop", "alice")
			dir := d.receiptsDir()
			d.stop()
			require.NoError(t, os.CopyFS(filepath.Join(disk, "receipts"), os.DirFS(filepath.Dir(dir))))
			require.NoError(t, os.Rename(filepath.Dir(dir), filepath.Dir(dir)+".moved"))
			require.NoError(t, os.Symlink(filepath.Join(disk, "receipts"), filepath.Dir(dir)))
			d.start()
			d.must("agents", "start", "--program", "alice")
			filler := fill()
			const many = `mkdir dir; i=0; while [ $i -lt 18000 ] && true 2>/dev/null >dir/f$i; do i=$((i+1)); done; echo $i`
			count := strings.TrimSpace(d.sh("alice", many))
			if mode == "deny" {
				require.NotEqual(t, "18000", count)
				require.Contains(t, d.exec("alice", "cat", "main.txt").stderr, "Input/output error")
				require.Contains(t, d.why("alice", string(api.CodeAuditFull)), "audit_on_full")
			} else {
				require.Equal(t, "18000", count)
			}
			require.NoError(t, os.Remove(filler))
			d.eventually("it is written again", func() bool {
				return d.exec("alice", "cat", "main.txt").code == 0 && d.opened("alice", "open", "main.txt") != nil
			})
			missed := 0
			for _, r := range d.receipts("alice", "--type", api.ReceiptMissed).Receipts {
				missed += r.Count
			}
			if mode == "deny" {
				require.Zero(t, missed)
			} else {
				require.Positive(t, missed)
			}
			d.verifiedReceipts()
			d.stop()
		})
	}
}
