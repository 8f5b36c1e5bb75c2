package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
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

// receipts returns the receipts of the workspace.
func (d *daemon) receipts(args ...string) (r api.Receipts) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "receipts", "show", "-n", "10000"}, args...)...)), &r))
	return r
}

func (d *daemon) verifiedReceipts() (v api.ReceiptsCheck) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "receipts", "verify")), &v))
	require.True(d.t, v.Intact)
	return v
}

func typesOf(all []api.Receipt) (out []string) {
	for _, r := range all {
		out = append(out, r.Type)
	}
	return out
}

// receiptsDir is where the receipts of the workspace are.
func (d *daemon) receiptsDir() string {
	all := glob(d.path("*", ".receipts", "*"))
	require.Len(d.t, all, 1)
	return all[0]
}

// TestReceiptsOfAnAgentsLife: everything that is decided about an agent is in the log once, also
// across a kill of polisd; the export can be verified by anyone; and a change by hand is found.
func TestReceiptsOfAnAgentsLife(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nread = [\"**\"]\nwrite = [\"docs/**\"]\n"})
	d.up()
	d.add("alice", "--role", "docs")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > main.txt").code)
	require.NotZero(t, d.exec("alice", "sh", "-c", "printf x > $(printf 'bad\\377\\nname')").code)
	d.sh("alice", "echo more >> docs/guide.md; git commit -qam work")
	d.snapshot("alice")
	d.must("agents", "set", "alice", "--role", "docs", "--memory", "300")
	d.must("merge", "alice")
	head := d.verifiedReceipts().Logs[0].Head

	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.must("agents", "remove", "alice", "--force")
	got := d.receipts()
	types := typesOf(got.Receipts)
	for _, want := range []string{api.ReceiptOpened, api.EventAgentCreated, api.EventSnapshot, api.EventAgentSettings, api.EventAgentMerged, api.EventAgentRemoved} {
		require.Contains(t, types, want)
	}
	d.eventually("refusals come a moment later", func() bool {
		return slices.Contains(typesOf(d.receipts("alice", "--type", "access:").Receipts), api.EventDenied)
	})
	require.Contains(t, d.must("receipts", "show", "--type", api.EventAgentCreated), "agent alice was added")
	v := d.verifiedReceipts()
	d.must("receipts", "verify", "--head", head)
	d.refused(api.CodeReceiptsBroken, "receipts", "verify", "--head", strings.Repeat("ab", 32))

	prev := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(d.must("receipts", "export")))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var r api.Receipt
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		sum := sha256.Sum256([]byte(r.Prev + "\n" + r.Text))
		require.Equal(t, r.Hash, hex.EncodeToString(sum[:]))
		if was, ok := prev[r.Log]; ok {
			require.Equal(t, was, r.Prev)
		}
		prev[r.Log] = r.Hash
		n++
	}
	require.Equal(t, v.Entries, n)

	file := glob(filepath.Join(d.receiptsDir(), "workspace", "*.log"))[0]
	text := readFile(file)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(text, "agent alice was added", "agent mallory was added", 1)), 0o600))
	e := d.refused(api.CodeReceiptsBroken, "receipts", "verify")
	require.Contains(t, e.Message, "it does not match its hash")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	d.verifiedReceipts()
	d.stop()
	d.start()
	d.verifiedReceipts()
}

// TestPolisdDiesWhileItWritesReceipts: killed at each step of writing, the log is intact at the next
// start, and what was answered is in it.
func TestPolisdDiesWhileItWritesReceipts(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	d.up()
	for i, step := range []string{"receipt:written", "receipt:synced"} {
		name := fmt.Sprintf("agent%d", i)
		d.add(name)
		d.dieAt(step, func() result { return d.ctl("agents", "set", name, "--memory", "300") })
		d.verifiedReceipts()
		require.Contains(t, d.must("receipts", "show", name, "--type", api.EventAgentCreated), name)
	}
	// A torn entry, as a crash of the machine leaves it.
	require.Error(t, d.signal(syscall.SIGKILL))
	file := glob(filepath.Join(d.receiptsDir(), "workspace", "*.log"))[0]
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("0123456789abcdef {\"seq\":")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	d.start()
	d.must("agents", "set", "agent0", "--memory", "310")
	d.verifiedReceipts()
	require.Contains(t, d.must("--json", "receipts", "show", "--type", api.ReceiptOpened), `"cut": 24`)
	require.NotEmpty(t, d.happened(api.EventReceipts))
}

// TestAFullDiskOfReceipts: with "deny" what must be recorded is refused and what frees is not, with
// "drop" everything works and an entry says how many are missing.
func TestAFullDiskOfReceipts(t *testing.T) {
	for _, mode := range []string{"deny", "drop"} {
		t.Run(mode, func(t *testing.T) {
			disk, fill := smallDisk(t)
			d := startDaemon(t, options{config: fmt.Sprintf("[receipts]\naudit_on_full = %q\n", mode)})
			d.up()
			d.add("alice")
			d.worker("carol")
			dir := d.receiptsDir()
			d.stop()
			require.NoError(t, os.CopyFS(filepath.Join(disk, "receipts"), os.DirFS(filepath.Dir(dir))))
			require.NoError(t, os.Rename(filepath.Dir(dir), filepath.Dir(dir)+".moved"))
			require.NoError(t, os.Symlink(filepath.Join(disk, "receipts"), filepath.Dir(dir)))
			d.start()
			d.task("carol", "while [ ! -e ready ]; do sleep 0.1; done; rm ready; "+commitOf("c.txt", "c"))
			filler := fill()
			memory := 300
			d.eventually("the fault is noticed", func() bool { // the last page of the log has room for some
				memory++
				d.ctl("agents", "set", "alice", "--memory", fmt.Sprint(memory))
				return len(d.happened(api.EventReceipts)) > 0
			})
			if mode == "deny" {
				d.refused(api.CodeAuditFull, "agents", "set", "alice", "--memory", "510")
				d.refused(api.CodeAuditFull, "agents", "add", "bob", "--base", "custom")
			} else {
				d.must("agents", "set", "alice", "--memory", "510")
			}
			d.sh("carol", "echo > ready") // its task ends well, and the queue merges it
			d.eventually("the queue is done", func() bool { return len(d.queues().Recent) == 1 })
			if out := d.queues().Recent[0]; mode == "deny" {
				require.Equal(t, api.CodeAuditFull, out.Code, "no request asks for this merge")
				require.NotContains(t, git(t, d.bare(), "log", "--format=%s", "main"), "write c.txt")
			} else {
				require.Empty(t, out.Code)
			}
			d.must("agents", "stop", "alice")
			require.Contains(t, d.must("receipts", "verify"), "no space left")
			require.NoError(t, os.Remove(filler))
			d.eventually("it is written again", func() bool { return !strings.Contains(d.must("receipts", "verify"), "no space left") })
			d.must("agents", "set", "alice", "--memory", "520")
			if mode == "deny" {
				d.must("merge", "carol")
			}
			require.Contains(t, git(t, d.bare(), "log", "--format=%s", "main"), "write c.txt")
			require.Contains(t, d.must("--json", "receipts", "show", "alice"), fmt.Sprintf("-> %d", memory), "what could not be written is written now")
			d.verifiedReceipts()
			d.stop()
		})
	}
}
