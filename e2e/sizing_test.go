package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReadyAfterAdoption: polisd reports READY=1 to its service manager once it has adopted the agents that run, and
// not before: each answers at once.
func TestReadyAfterAdoption(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	for _, name := range []string{"alice", "bob"} {
		d.add(name, "--", "sleep", "77777")
		d.must("agents", "start", "--program", name)
	}
	took := d.untilReady()
	for _, name := range []string{"alice", "bob"} {
		require.Zero(t, d.exec(name, "true").code)
		a, ok := d.agent(name)
		require.True(t, ok)
		require.Equal(t, "Running", string(a.Status), "it was adopted")
	}
	t.Logf("READY=1 after %s", took)
}

// untilReady kills polisd, starts it and returns the time from exec to READY=1 (sd_notify(3)).
func (d *daemon) untilReady() time.Duration {
	d.t.Helper()
	path := d.path("notify")
	_ = os.Remove(path) // that of an earlier start
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(d.t, err)
	defer conn.Close()
	require.Error(d.t, d.signal(syscall.SIGKILL))
	ready := make(chan time.Time, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if strings.Contains("\n"+string(buf[:n])+"\n", "\nREADY=1\n") {
				ready <- time.Now()
				return
			}
		}
	}()
	env := d.env
	d.env = append(append([]string{}, env...), "NOTIFY_SOCKET="+path)
	defer func() { d.env = env }()
	began := time.Now()
	d.start()
	select {
	case at := <-ready:
		return at.Sub(began)
	case <-time.After(patience):
		d.t.Fatal("polisd did not report READY=1")
	}
	return 0
}

// BenchmarkSizing prints what numbers of agents take, for docs/sizing.md; no figure fails it. The agents are plain:
// each runs a program that waits. POLIS_SIZES are the numbers ("10,50,100").
func BenchmarkSizing(b *testing.B) {
	sizes := os.Getenv("POLIS_SIZES")
	if sizes == "" {
		sizes = "10,50,100"
	}
	d := startDaemon(b, options{config: "max_agents = 300\n"})
	d.up()
	start := func(args ...string) time.Duration {
		var took []time.Duration
		for range 30 {
			cmd := exec.CommandContext(b.Context(), filepath.Join(d.bin, "polisctl"), args...)
			cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
			began := time.Now()
			require.NoError(b, cmd.Run())
			took = append(took, time.Since(began))
		}
		return median(took).Round(100 * time.Microsecond)
	}
	fmt.Printf("\npolisctl --help %v\n", start("--help"))
	n := 0
	for field := range strings.SplitSeq(sizes, ",") {
		size, err := strconv.Atoi(field)
		require.NoError(b, err)
		var add []time.Duration
		for ; n < size; n++ {
			name := fmt.Sprintf("agent%d", n)
			began := time.Now()
			d.add(name, "--force", "--", "sleep", "77777")
			d.must("agents", "start", "--program", name)
			add = append(add, time.Since(began))
		}
		time.Sleep(5 * time.Second)
		var ready []time.Duration
		for range 5 {
			ready = append(ready, d.untilReady())
		}
		list := start("agents", "list")
		d.printUse(b, size)
		fmt.Printf("%d agents: add and start one %v; READY after a kill %v; agents list %v\n", size, median(add).Round(time.Millisecond), median(ready).Round(time.Millisecond), list)
	}
	b.ReportMetric(0, "ns/op")
}

var statusLine = regexp.MustCompile(`(?m)^Threads:\s+(\d+)$`)

// printUse prints memory, threads, descriptors, processes and disk space of polisd, the shims and the sandboxes.
func (d *daemon) printUse(b *testing.B, size int) {
	type use struct{ kb, threads, files, processes int }
	measure := func(pids []int) (u use) {
		for _, pid := range pids {
			proc := fmt.Sprintf("/proc/%d", pid)
			u.kb += pss(proc)
			u.processes++
			u.files += len(glob(proc + "/fd/*"))
			if m := statusLine.FindStringSubmatch(readFile(proc + "/status")); m != nil {
				n, err := strconv.Atoi(m[1])
				require.NoError(b, err)
				u.threads += n
			}
		}
		return u
	}
	var boxed []int
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		if cmd, err := os.ReadFile(f); err == nil && strings.Contains(string(cmd), "77777") && !strings.Contains(string(cmd), "polis") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			require.NoError(b, err)
			boxed = append(boxed, pid)
		}
	}
	for _, row := range []struct {
		name string
		pids []int
	}{{"polisd", []int{d.cmd.Process.Pid}}, {"shims", d.shimPIDs()}, {"agents' programs", boxed}} {
		u := measure(row.pids)
		fmt.Printf("%d agents: %s: %.1f MB, %d threads, %d descriptors, %d processes\n", size, row.name, float64(u.kb)/1024, u.threads, u.files, u.processes)
	}
	out, err := exec.CommandContext(b.Context(), "du", "-sxk", d.path("ws")).Output()
	require.NoError(b, err)
	fmt.Printf("%d agents: workspace on disk %s KiB\n", size, strings.Fields(string(out))[0])
}
