package e2e

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// measure.py runs in the sandbox, where $HOME is the native file system and
// the project is the view: same processes, same limits, same minute.
//
//go:embed testdata/measure.py
var measure string

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkPolis prints figures for people; no figure fails it.
func BenchmarkPolis(b *testing.B) {
	d := startDaemon(b, options{})
	d.upGo()
	var add, worktree, exec []time.Duration
	for i := range 7 {
		name := fmt.Sprintf("add%d", i)
		native := d.path("native", name)
		began := time.Now()
		git(b, d.path("src"), "worktree", "add", "-q", "-b", name, native)
		worktree = append(worktree, time.Since(began))
		began = time.Now()
		d.add(name, "--memory", "2048")
		add = append(add, time.Since(began))
	}
	for range 20 {
		began := time.Now()
		d.must("agents", "exec", "add0", "--", "true")
		exec = append(exec, time.Since(began))
	}
	fmt.Printf("\n%-34s %10s %10s %8s\n", "", "native", "polis", "ratio")
	fmt.Printf("%-34s %10s %10s %8s\n", "agent add", "", median(add).Round(time.Millisecond), "")
	fmt.Printf("%-34s %10s %10s %8s\n", "agent add without the checkout", "", (median(add) - median(worktree)).Round(time.Millisecond), "")
	fmt.Printf("%-34s %10s %10s %8s\n", "exec into an agent", "", median(exec).Round(time.Millisecond), "")
	var kb int
	var n int
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		if strings.Contains(readFile(f), "polis-shim") && strings.Contains(readFile(f), d.dir) {
			kb, n = kb+pss(filepath.Dir(f)), n+1
		}
	}
	fmt.Printf("%-34s %10s %8.1fMB %8s\n", "memory of an idle agent's shim", "", float64(kb)/1024/float64(max(n, 1)), "")
	r := d.ctlInput(measure, "agents", "exec", "add1", "--", "env", "GO="+goroot(b)+"/bin/go", "/usr/bin/python3", "-")
	require.Zero(b, r.code, r.String())
	var rows []struct {
		Name         string
		Native, View float64
		Unit         string
		Rate         bool
	}
	require.NoError(b, json.Unmarshal([]byte(r.stdout), &rows), r.String())
	for _, row := range rows {
		ratio := row.View / row.Native
		fmt.Printf("%-34s %8.2f%s %8.2f%s %8.2f\n", row.Name, row.Native, row.Unit, row.View, row.Unit, ratio)
	}
	b.ReportMetric(0, "ns/op")
}

var pssLine = regexp.MustCompile(`(?m)^Pss: +(\d+) kB`)

// pss is the memory of a process and of its share of what it shares, in KiB.
func pss(proc string) int {
	b, err := os.ReadFile(filepath.Join(proc, "smaps_rollup"))
	if m := pssLine.FindSubmatch(b); err == nil && m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	return 0
}
