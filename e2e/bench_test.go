package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkAgents prints the costs of agents other than those of files, for people. No figure fails
// it. The program in bench measures files.
func BenchmarkAgents(b *testing.B) {
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
	fmt.Println()
	fmt.Printf("%-34s %10s\n", "agent add", median(add).Round(time.Millisecond))
	fmt.Printf("%-34s %10s\n", "agent add without the checkout", (median(add) - median(worktree)).Round(time.Millisecond))
	fmt.Printf("%-34s %10s\n", "exec into an agent", median(exec).Round(time.Millisecond))
	var kb int
	var n int
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		if strings.Contains(readFile(f), "polis-shim") && strings.Contains(readFile(f), d.dir) {
			kb, n = kb+pss(filepath.Dir(f)), n+1
		}
	}
	fmt.Printf("%-34s %8.1fMB\n", "memory of an idle agent's shim", float64(kb)/1024/float64(max(n, 1)))
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
