package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"polis/daemon/api"
	"polis/daemon/gateway/usage"
)

// streamClient sends requests over connections that stay, each thread over one. It prints the time from a
// request to the first token, less what the service took, in nanoseconds; or with "cut" nothing.
const streamClient = `
import json, os, socket, sys, threading, time, urllib.parse
url, n, threads, tokens, pace, cut = sys.argv[1], *map(int, sys.argv[2:7])
u = urllib.parse.urlparse(url)
def connect():
    s = socket.create_connection((u.hostname, u.port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
def work(k):
    s, out = None, []
    for i in range(k, n, threads):
        ends = bool(cut and i % cut == 0)
        body = json.dumps({"model": "m", "stream": True, "tokens": tokens, "pace": pace, "cut": ends, "messages": []})
        s = s or connect()
        began = time.perf_counter_ns()
        s.sendall(("POST %s/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (u.path, len(body), body)).encode())
        got, first = b"", 0
        while True:
            b = s.recv(65536)
            got += b
            assert got.startswith(b"HTTP/1.1 200"[:len(got)]), got
            if not first and b"text_delta" in got:
                first = time.perf_counter_ns()
            if got.endswith(b"\r\n0\r\n\r\n"):
                assert b"message_stop" in got, got
                break
            if not b:
                assert ends, got
                s.close(); s = None
                break
        if not ends:
            took = int(got.split(b'"took":', 1)[1].split(b"}", 1)[0])
            out.append(first - began - took)
    if not cut:
        for x in out: print(x)
all = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
for t in all: t.start()
for t in all: t.join()
`

// tokenService stands in for a service of the Messages API; it counts what it sends.
type tokenService struct {
	mu       sync.Mutex
	requests int64
	sent     usage.Tokens
}

// ServeHTTP is part of http.Handler.
func (s *tokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := time.Now()
	var q struct {
		Tokens, Pace int // Pace: milliseconds between tokens
		Cut          bool
	}
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	event := func(data string) {
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = rc.Flush()
	}
	s.count(1, usage.Tokens{Input: 3})
	event(`{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":0}}}`)
	for i := range q.Tokens {
		if q.Cut && i == q.Tokens/2 {
			panic(http.ErrAbortHandler)
		}
		if i > 0 && q.Pace > 0 {
			time.Sleep(time.Duration(q.Pace) * time.Millisecond)
		}
		s.count(0, usage.Tokens{Output: 1})
		event(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w"},"took":%d}`, time.Since(came).Nanoseconds()))
	}
	event(fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}`, q.Tokens))
	event(`{"type":"message_stop"}`)
}

func (s *tokenService) count(requests int64, t usage.Tokens) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests += requests
	s.sent.Input += t.Input
	s.sent.Output += t.Output
}

// BenchmarkGateway prints what the model gateway costs, by the built programs: the time that it adds before
// the first token, the processor time of the shim for streams, also beside that of a plain proxy, and whether 10,000 requests are counted as
// the service counts them, of which every tenth is cut. Only the counts fail it.
func BenchmarkGateway(b *testing.B) {
	service := &tokenService{}
	server := httptest.NewServer(service)
	defer server.Close()
	// With a key: answers are searched for it.
	key := b.TempDir() + "/key"
	if err := os.WriteFile(key, []byte("sk-ant-api03-"+strings.Repeat("aB3_-x9", 14)), 0o600); err != nil {
		b.Fatal(err)
	}
	d := startDaemon(b, options{config: "[network]\negress = \"none\"\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + server.URL + "\"\nkey_file = \"" + key + "\"\n[roles.with.gateway]\nmodels = [\"claude\"]\n"})
	d.up()
	d.add("ana", "--role", "with", "--memory", "1024")
	script := b.TempDir() + "/client.py"
	if err := os.WriteFile(script, []byte(streamClient), 0o644); err != nil {
		b.Fatal(err)
	}
	inside := func(args string) string {
		return d.sh("ana", "cat >$HOME/client.py <<'END'\n"+streamClient+"END\nexec python3 $HOME/client.py $ANTHROPIC_BASE_URL "+args)
	}
	outside := func(url, args string) string {
		out, err := exec.CommandContext(b.Context(), "python3", append([]string{script, url}, strings.Fields(args)...)...).CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	shim := func() time.Duration {
		var top api.Top
		if err := json.Unmarshal([]byte(d.must("top", "--json")), &top); err != nil {
			b.Fatal(err)
		}
		for _, a := range top.Agents {
			if a.Name == "ana" {
				return time.Duration(a.Shim.CPUMicros) * time.Microsecond
			}
		}
		b.Fatal("no agent")
		return 0
	}
	times := func(text string) (out []time.Duration) {
		for _, f := range strings.Fields(text) {
			ns, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, time.Duration(ns))
		}
		slices.Sort(out)
		return out
	}
	for b.Loop() {
		// The two in turns: the machine's speed varies.
		var direct, through []time.Duration
		for range 10 {
			direct = append(direct, times(outside(server.URL, "100 1 2 0 0"))...)
			through = append(through, times(inside("100 1 2 0 0"))...)
		}
		slices.Sort(direct)
		slices.Sort(through)
		at := func(t []time.Duration, percent int) time.Duration { return t[(len(t)-1)*percent/100] }
		fmt.Println()
		for _, percent := range []int{50, 90, 99} {
			fmt.Printf("to the first token, percentile %d: direct %v, by the gateway %v, added %v\n", percent, at(direct, percent).Round(time.Microsecond), at(through, percent).Round(time.Microsecond),
				(at(through, percent) - at(direct, percent)).Round(time.Microsecond))
		}

		const streams = "50 50 400 50 0" // 50 of them, 20 tokens a second each
		before, began := shim(), time.Now()
		late := times(inside(streams))
		used, took := shim()-before, time.Since(began)
		rate := 50 * 400 / took.Seconds()
		plain, stop := startPlainProxy(b, server.URL)
		outside(plain, streams)
		ratio := used.Seconds() / stop().Seconds()
		fmt.Printf("50 streams, %.0f tokens a second for %v: the shim used %.2f %% of a processor, %.2f %% for 1,000 tokens a second; first token after %v (median), %v (most)\n",
			rate, took.Round(time.Millisecond), 100*used.Seconds()/took.Seconds(), 100*used.Seconds()/took.Seconds()/rate*1000, at(late, 50).Round(time.Microsecond), at(late, 100).Round(time.Microsecond))

		fmt.Printf("that is %.2f of what a plain reverse proxy of Go's library uses for the same\n", ratio)

		counted := d.countsOf("ana")
		service.mu.Lock()
		sent, requests := service.sent, service.requests
		service.mu.Unlock()
		began = time.Now()
		inside("10000 16 6 0 10")
		took = time.Since(began)
		service.mu.Lock()
		sent.Input, sent.Output, requests = service.sent.Input-sent.Input, service.sent.Output-sent.Output, service.requests-requests
		service.mu.Unlock()
		now := d.countsOf("ana")
		now.Input, now.Output, now.Requests, now.Cut = now.Input-counted.Input, now.Output-counted.Output, now.Requests-counted.Requests, now.Cut-counted.Cut
		fmt.Printf("%d requests in %v, %d of them cut: %d and %d tokens sent, %d and %d counted\n", now.Requests, took.Round(time.Millisecond), now.Cut, sent.Input, sent.Output, now.Input, now.Output)
		if now.Tokens != sent || now.Requests != requests || requests != 10_000 || now.Cut != 1000 {
			b.Fatalf("sent %+v in %d requests, counted %+v", sent, requests, now)
		}
	}
	load, _, _ := strings.Cut(readFile("/proc/loadavg"), " ")
	fmt.Printf("load average at the end: %s\n", load)
}
