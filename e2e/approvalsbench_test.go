package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// askLoop asks as a hook does, each time on a new connection. It prints the time from connect to
// the answer in microseconds, or the time of the answer in nanoseconds.
const askLoop = `
import socket, sys, time, json
n, command, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for i in range(n):
    body = json.dumps({"tool": "Bash", "input": {"command": command + ("" if what == "took" else str(i))}})
    began = time.perf_counter_ns()
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/polis/api.sock")
    s.sendall(("POST /v1/permission_request HTTP/1.1\r\nHost: p\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    got = b""
    while True:
        b = s.recv(65536)
        if not b: break
        got += b
    print((time.perf_counter_ns() - began) // 1000 if what == "took" else time.time_ns(), flush=True)
    assert b'"approve"' in got, got
`

// openLoop opens paths that a rule asks about, and prints the time at which each open returned.
const openLoop = `
import os, sys, time
for i in range(int(sys.argv[1])):
    os.close(os.open("deploy/f%d" % i, os.O_WRONLY | os.O_CREAT))
    print(time.time_ns(), flush=True)
`

// BenchmarkApprovals prints the times of questions, for people. No figure fails it. POLIS_AGENTS is
// the number of agents that ask at once (100).
func BenchmarkApprovals(b *testing.B) {
	n := 100
	if s := os.Getenv("POLIS_AGENTS"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			b.Fatal(err)
		}
	}
	d := startDaemon(b, options{config: fmt.Sprintf("max_agents = %d\n[admission]\novercommit = 1000.0\n[roles.worker]\nwrite = [\"**\"]\nask = [\"deploy/**\"]\n[roles.worker.tools]\nauto_approve = [\"shell(go test *)\"]\n", n+1)})
	d.up()
	d.add("ann", "--role", "worker")
	c := client.New(d.path("run", "polisd.sock"))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	var took []time.Duration
	for _, f := range strings.Fields(d.sh("ann", "python3 -c '"+strings.ReplaceAll(askLoop, "'", `'\''`)+"' 500 'go test ./...' took")) {
		us, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Duration(us)*time.Microsecond)
	}
	fmt.Println()
	fmt.Printf("%-60s %10s %10s\n", "", "median", "p99")
	figure := func(what string, took []time.Duration) {
		m := median(took)
		fmt.Printf("%-60s %10s %10s\n", what, m.Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond))
	}
	figure("a rule decides, from the hook's connect to its answer", took)

	const rounds = 50
	for what, script := range map[string]string{
		"a person's answer reaches the hook":           "python3 -c '" + strings.ReplaceAll(askLoop, "'", `'\''`) + "' 50 make at",
		"a person's answer reaches an open that waits": "mkdir -p deploy; python3 -c '" + openLoop + "' 50",
	} {
		ended := make(chan string, 1)
		asked := d.working("ann", script)
		go func() { ended <- (<-asked).stdout }()
		var answered []time.Time
		for len(answered) < rounds {
			all, err := c.Approvals(ctx, "")
			if err != nil {
				b.Fatal(err)
			}
			for _, v := range all {
				at := time.Now()
				if _, err := c.Answer(ctx, v.ID, api.AnswerRequest{Verdict: api.VerdictApprove}); err != nil {
					b.Fatal(err)
				}
				answered = append(answered, at)
			}
		}
		var delays []time.Duration
		for i, f := range strings.Fields(<-ended) {
			ns, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			delays = append(delays, time.Unix(0, ns).Sub(answered[i]))
		}
		figure(what, delays)
	}

	var names []string
	for i := range n {
		name := fmt.Sprintf("agent%d", i)
		d.worker(name, "--role", "worker", "--memory", "64")
		names = append(names, name)
	}
	for _, name := range names {
		d.must("agents", "run", name, "polisctl ask -- make "+name)
	}
	began := time.Now()
	for listed := 0; listed < n; {
		all, err := c.Approvals(ctx, "")
		if err != nil {
			b.Fatal(err)
		}
		listed = len(all)
		if time.Since(began) > patience {
			b.Fatalf("%d of %d agents ask", listed, n)
		}
	}
	var lists []time.Duration
	for range 50 {
		began := time.Now()
		if _, err := c.Approvals(ctx, ""); err != nil {
			b.Fatal(err)
		}
		lists = append(lists, time.Since(began))
	}
	figure(fmt.Sprintf("the questions of %d agents are listed", n), lists)
	load, _, _ := strings.Cut(readFile("/proc/loadavg"), " ")
	fmt.Printf("load average at the end: %s; slowest list %s\n", load, slices.Max(lists))
	b.ReportMetric(0, "ns/op")
}
