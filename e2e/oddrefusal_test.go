package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// recordedRefusals returns what the receipts say of the refusals of an agent: how many there were of each path, and of those that
// have no path of their own.
func (d *daemon) recordedRefusals(agent string) (of map[string]int, all int) {
	d.t.Helper()
	of = map[string]int{}
	for _, r := range d.receipts(agent).Receipts {
		if r.Type != api.EventDenied && r.Type != api.ReceiptMissed {
			continue
		}
		var data struct{ Path, Others string }
		if r.Data != nil {
			require.NoError(d.t, json.Unmarshal(r.Data, &data))
		}
		n := max(r.Count, 1)
		all += n
		if data.Others == "" {
			of[data.Path] += n
		}
	}
	return of, all
}

// TestOneRefusalAmongAHundredThousand: an agent cannot hide it, neither in equal ones nor in others of one directory. It is in
// why inside and outside, and in the receipts; and the receipts have the number of all.
func TestOneRefusalAmongAHundredThousand(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{})
	d.up()
	d.add("ana", "--read", "main.txt")
	d.add("bob")
	out := d.sh("ana", `python3 -c '
import errno, os
def refused(name):
    try: os.close(os.open(name, os.O_RDONLY | os.O_CREAT))
    except OSError as e: assert e.errno == errno.EACCES, e
    else: assert False
for i in range(50000):
    if i == 33333: refused("docs/odd")
    refused("flood%d" % (i % 20000)); refused("same")
'; cat /run/polis/why`)
	require.Contains(t, out, "of docs/odd was refused: UNDECLARED_WRITE")
	require.Contains(t, d.must("agents", "why", "ana"), "create docs/odd: UNDECLARED_WRITE")
	require.NotZero(t, d.sh("bob", "echo fine"))
	d.must("agents", "stop", "ana") // what was counted and not reported yet is reported now
	of, all := d.recordedRefusals("ana")
	require.Equal(t, 1, of["docs/odd"], "%v", of)
	require.Equal(t, 100_001, all)
	require.Less(t, len(of), 1000)
	require.Contains(t, d.must("receipts", "show", "ana"), "and others in")
	d.verifiedReceipts()
}

// TestARefusalAtTheEndIsRecorded: in the grace period of a stop, in which polisd does not follow the agent's shim.
func TestARefusalAtTheEndIsRecorded(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.must("agents", "add", "ana", "--base", "custom", "--read", "main.txt", "--", "sh", "-c", `trap 'echo x >stolen; exit' TERM; touch "$HOME/there"; while :; do sleep 0.05; done`)
	d.must("agents", "run", "ana", "work")
	d.eventually("it works", func() bool { return len(glob(d.home("ana", "there"))) == 1 })
	d.must("agents", "stop", "ana")
	of, _ := d.recordedRefusals("ana")
	require.Equal(t, 1, of["stolen"], "%v", of)
	require.NotContains(t, strings.Join(glob(d.path("run", "agents", "*", "events.json")), " "), "ana")
}

// TestAStormOfConnectionsHidesNoOther: the kernel reports refused connections at a bounded rate, by their destination; those
// that it only counts are in the receipts, too.
func TestAStormOfConnectionsHidesNoOther(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{})
	d.up()
	d.add("ana", "--egress", "none")
	d.sh("ana", `python3 -c '
import socket
def refused(host, port):
    s = socket.socket()
    try: s.connect((host, port))
    except ConnectionRefusedError: pass
    else: assert False
    s.close()
for i in range(3000):
    refused("203.0.113.1", 80)
    if i >= 2000 and i % 100 == 0: refused("203.0.113.%d" % (i // 100), 22)
'`)
	d.must("agents", "stop", "ana")
	of, all := d.recordedRefusals("ana")
	odd := 0
	for path := range of {
		if strings.HasSuffix(path, ":22") {
			odd++
		}
	}
	require.GreaterOrEqual(t, odd, 5, "%v", of)
	require.GreaterOrEqual(t, all, 3010)
	require.Positive(t, of["others, not read one by one"])
}
