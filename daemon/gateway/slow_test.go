package gateway

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlowClientsAreBounded: an agent opens more connections than it can have, in each form that keeps one open. The
// memory and the descriptors of the shim stay bounded, the endpoint of another agent answers, and its own does when
// the connections are cut.
func TestSlowClientsAreBounded(t *testing.T) {
	s := newStandIn(t)
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for block := strings.Repeat(": "+strings.Repeat("x", 1000)+"\n\n", 64); ; {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}
	one, two := newEndpoint(t, all(s.URL)), newEndpoint(t, all(s.URL))
	const ok = `{"model":"m","stream":true}`
	for name, request := range map[string]string{
		"nothing":                 "",
		"headers never finished":  "POST /anthropic/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: " + strings.Repeat("a", 60<<10),
		"bodies never finished":   "POST /anthropic/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 33554432\r\n\r\n" + strings.Repeat("{", 200<<10),
		"answers that nobody has": fmt.Sprintf("POST /anthropic/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(ok), ok),
	} {
		t.Run(name, func(t *testing.T) {
			heap, fds := used(t)
			var conns []net.Conn
			var wg sync.WaitGroup
			for range maxConns + 64 {
				c, err := net.Dial("tcp", strings.TrimPrefix(one.url, "http://"))
				require.NoError(t, err)
				conns = append(conns, c)
				require.NoError(t, c.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
				wg.Go(func() { _, _ = io.WriteString(c, request) }) // the rest waits in the kernel
			}
			wg.Wait()
			require.Eventually(t, func() bool {
				return two.raw("GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == "HTTP/1.1 404 Not Found"
			}, 10*time.Second, time.Millisecond)
			heap2, fds2 := used(t)
			grown := heap2 - heap
			t.Logf("%d connections: %.1f MiB of memory, %d descriptors of both ends and of the service", len(conns), float64(grown)/(1<<20), fds2-fds)
			require.Less(t, grown, int64(160<<20), "64 MiB of bodies, 64 KiB of headers each, and the stand-in")
			// Each connection has both of its ends here, and a request one to the service with both ends.
			require.LessOrEqual(t, fds2-fds, 2*(maxConns+64)+2*maxRequests+16)
			for _, c := range conns {
				require.NoError(t, c.Close())
			}
			require.Eventually(t, func() bool {
				return one.raw("GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == "HTTP/1.1 404 Not Found"
			}, time.Minute, 10*time.Millisecond)
			require.Eventually(t, func() bool { return len(one.slots) == 0 }, time.Minute, 10*time.Millisecond, "no request stays")
		})
	}
}

// used returns the memory and the descriptors of this process.
func used(t *testing.T) (memory int64, fds int) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return int64(m.HeapInuse + m.StackInuse), len(list)
}

// TestAnswersThatAreHeldAreBounded: documents that do not end, of which the usage would be read, and bombs.
func TestAnswersThatAreHeldAreBounded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(bytes.Repeat([]byte(" "), 6<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, c := range map[string]struct {
		header   http.Header
		body     []byte
		size     int64 // that the agent gets
		requests int
	}{
		"documents":       {nil, bytes.Repeat([]byte(" "), 3<<18), 3 << 18, maxRequests},
		"lines":           {http.Header{"Content-Type": {"text/event-stream"}}, append([]byte("data: "), bytes.Repeat([]byte("x"), 3<<18-6)...), 3 << 18, maxRequests},
		"bombs":           {http.Header{"Content-Encoding": {"gzip"}}, bomb.Bytes(), 6 << 20, 8},
		"bombs of a line": {http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"text/event-stream"}}, bomb.Bytes(), 6 << 20, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStandIn(t)
			hold := make(chan struct{})
			s.handle = func(w http.ResponseWriter, r *http.Request) {
				maps.Copy(w.Header(), c.header)
				_, _ = w.Write(c.body)
				w.(http.Flusher).Flush()
				<-hold
			}
			defer close(hold)
			e := newEndpoint(t, all(s.URL))
			heap, _ := used(t)
			var wg sync.WaitGroup
			var bodies []io.Closer
			for range c.requests {
				resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m"}`)
				bodies = append(bodies, resp.Body)
				wg.Go(func() { _, _ = io.CopyN(io.Discard, resp.Body, c.size) })
			}
			wg.Wait()
			grown, _ := used(t)
			grown -= heap
			t.Logf("%d answers: %.1f MiB of memory, with the service and the agent", c.requests, float64(grown)/(1<<20))
			require.Less(t, grown, int64(maxAnswers+24<<20))
			for _, b := range bodies {
				require.NoError(t, b.Close())
			}
			require.Eventually(t, func() bool { return len(e.slots) == 0 && e.answers.TryAcquire(maxAnswers) }, time.Minute, time.Millisecond, "all of it is free again")
		})
	}
}
