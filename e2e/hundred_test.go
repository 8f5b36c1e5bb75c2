package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// BenchmarkHundredAgents prints what a start and a list cost with a hundred
// agents that are stopped (their worktrees and the state are real), for people; no
// figure fails it. POLIS_AGENTS is another number.
func BenchmarkHundredAgents(b *testing.B) {
	n := 100
	if s := os.Getenv("POLIS_AGENTS"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			b.Fatal(err)
		}
	}
	d := startDaemon(b, options{config: fmt.Sprintf("max_agents = %d\n", n)})
	d.up()
	for i := range n {
		name := fmt.Sprintf("agent%d", i)
		d.add(name, "--port", "3000")
		d.must("agents", "stop", name)
	}
	var took []int64
	for range 5 {
		d.stop()
		d.start()
		took = append(took, d.report().TookMillis)
	}
	c := d.http()
	var api, cli []time.Duration
	for range 50 {
		began := time.Now()
		resp, err := c.Get("http://polis/v1/agents")
		if err != nil {
			b.Fatal(err)
		}
		var list struct{ Agents []json.RawMessage }
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Agents) != n {
			b.Fatalf("%d agents: %v", len(list.Agents), err)
		}
		resp.Body.Close()
		api = append(api, time.Since(began))
		began = time.Now()
		if lines := strings.Count(d.must("agents", "list"), "\n"); lines != n+1 {
			b.Fatalf("%d lines", lines)
		}
		cli = append(cli, time.Since(began))
	}
	fmt.Printf("\n%d agents: reconcile at start %v ms; GET /v1/agents %v; polisctl agents list %v\n", n, took, median(api), median(cli))
	b.ReportMetric(0, "ns/op")
}
