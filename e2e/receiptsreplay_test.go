package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (d *daemon) receiptsReplay(args ...string) (r api.ReceiptsReplay) {
	d.t.Helper()
	decode(d.t, d.must(append([]string{"--json", "receipts", "replay"}, args...)...), &r)
	return r
}

// TestReplayOfReceipts: the receipts alone give the state at each entry, which is that of polisd now and that of git
// then, also after a kill; a merge that was taken out of the history, and a changed receipt, are found.
func TestReplayOfReceipts(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", `printf 'one\n' > made.txt; ln -s /etc/passwd link; printf x > run.sh; chmod +x run.sh; printf x > $(printf 'bad\377\nname')
printf '*.txt filter=x text eol=crlf\nrun.sh export-ignore\n' > .gitattributes; git add -A; git commit -qm one`)
	d.must("merge", "alice", "--accept-protected")
	first := d.receipts("--type", api.EventAgentMerged).Receipts[0].Seq
	tree := func(rev string) string { return strings.TrimSpace(git(t, d.bare(), "rev-parse", rev+"^{tree}")) }
	one := tree("main")
	d.snapshot("alice")
	d.add("bob")
	d.sh("bob", "echo bob > bob.txt; git add -A; git commit -qm two")
	d.must("merge", "bob")
	d.must("agents", "remove", "bob", "--force")
	d.must("lock", "docs", "--agent", "alice", "--tree")
	d.sh("alice", "echo more >> main.txt")

	held := func(r api.ReceiptsReplay, path string) bool {
		for _, a := range r.Agents {
			for _, l := range a.Leases {
				if a.Name == "alice" && l.Path == path {
					return true
				}
			}
		}
		return false
	}
	var r api.ReceiptsReplay
	d.eventually("the leases are recorded", func() bool { r = d.receiptsReplay(); return held(r, "docs") && held(r, "main.txt") })
	require.True(t, r.Last)
	require.Empty(t, r.Differences)
	require.Len(t, r.Agents, 1)
	require.Equal(t, 2, r.Targets[0].Merges)
	require.Equal(t, tree("main"), r.Targets[0].Tree)
	require.Len(t, r.Snapshots, 1)

	to := filepath.Join(t.TempDir(), "then")
	var at api.ReceiptsReplay
	decode(t, d.must("--json", "receipts", "replay", strconv.FormatUint(first, 10), "--to", to), &at)
	require.Empty(t, at.Differences)
	require.Equal(t, one, at.Targets[0].Tree)
	require.Len(t, at.Agents, 1)
	require.Equal(t, "one\n", readFile(filepath.Join(to, "made.txt")), "no filter and no attribute applies")
	require.FileExists(t, filepath.Join(to, "run.sh"))
	require.FileExists(t, filepath.Join(to, "bad\xff\nname"))
	require.NoFileExists(t, filepath.Join(to, "bob.txt"))
	link, err := os.Readlink(filepath.Join(to, "link"))
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", link)
	d.refused(api.CodeBadRequest, "receipts", "replay", "--to", to)
	require.Contains(t, d.must("receipts", "replay"), "0 differences")
	d.trials(t, tried{hint: "polisctl receipts show lists the entries", refused: "receipts replay 99999", do: []string{"receipts show"}})

	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.eventually("the agent has reclaimed its leases", func() bool { r = d.receiptsReplay(); return held(r, "docs") && held(r, "main.txt") })
	require.Empty(t, r.Differences)
	require.Equal(t, at.StateHash, d.receiptsReplay(strconv.FormatUint(first, 10)).StateHash)

	git(t, d.bare(), "update-ref", "refs/heads/main", "main^1") // behind the back of polis
	e := d.refused(api.CodeReceiptsBroken, "receipts", "replay")
	require.Contains(t, e.Message, "in the history of its target")
	file := glob(filepath.Join(d.receiptsDir(), "workspace", "*.log"))[0]
	text := readFile(file)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(text, "agent alice was added", "agent mallory was added", 1)), 0o600))
	require.Contains(t, d.refused(api.CodeReceiptsBroken, "receipts", "replay", "1").Message, "does not match its hash")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}
