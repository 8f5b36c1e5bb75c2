package shim

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/fusefs/policy"
	"polis/fusefs/view"
	"polis/lockd"
)

// servedShim answers on a socket as in a sandbox.
func servedShim(t testing.TB) (s *Shim, sock string) {
	s = askingShim(t)
	set, err := policy.Compile(policy.Rules{Write: []string{"**"}})
	require.NoError(t, err)
	guard, err := view.New(view.Config{Agent: "alice", Locker: locker{}}, set)
	require.NoError(t, err)
	s.views = &views{guard: guard, whys: view.NewWhy(), probes: view.NewWhy()}
	return s, serve(t, s.insideServer())
}

func serve(t testing.TB, server *http.Server) (sock string) {
	dir, err := os.MkdirTemp("", "polis-inside-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	sock = filepath.Join(dir, "api.sock")
	l, err := net.Listen("unix", sock)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(insideListener{l.(*net.UnixListener)}) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return sock
}

func permission(body string) string {
	return fmt.Sprintf("POST /v1/permission_request HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func shellMessage(command string) string {
	b, _ := json.Marshal(api.PermissionRequest{Tool: "bash", Input: map[string]any{"command": command}})
	return string(b)
}

func connect(t testing.TB, sock string) *net.UnixConn {
	c, err := net.Dial("unix", sock)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// A caller that dies while it waits leaves nothing: also one that sent more than its request,
// which would hide the end of its connection from the server.
func TestACallerThatDiesLeavesNoQuestion(t *testing.T) {
	s, sock := servedShim(t)
	for what, more := range map[string]string{"nothing more": "", "a byte": "x", "another request": permission(shellMessage("other")), "much": strings.Repeat("x", 1<<16)} {
		t.Run(what, func(t *testing.T) {
			c := connect(t, sock)
			_, err := io.WriteString(c, permission(shellMessage("make "+what)))
			require.NoError(t, err)
			s.opened(t, 1)
			go func() { _, _ = io.WriteString(c, more); _ = c.Close() }()
			s.opened(t, 0)
		})
	}
	// In one piece, and larger than what is read at once.
	for range 20 {
		before := s.events.Last()
		c := connect(t, sock)
		_, err := io.WriteString(c, permission(shellMessage("make "+strings.Repeat("x", 60<<10)))+"x")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return s.events.Last() == before+2 }, 30*time.Second, time.Millisecond, "asked and withdrawn")
		require.Empty(t, s.approvals.Open())
	}
}

// What comes before its turn is refused, and does not keep the call before it from its answer.
func TestMessagesOutOfOrder(t *testing.T) {
	s, sock := servedShim(t)
	c := connect(t, sock)
	_, err := io.WriteString(c, permission(shellMessage("first"))+permission(shellMessage("second")))
	require.NoError(t, err)
	open := s.opened(t, 1)
	require.Equal(t, "first", open[0].What, "one question of a connection at a time")
	_, err = s.approvals.Answer(open[0].ID, api.Answer{Verdict: api.VerdictApprove})
	require.NoError(t, err)
	open = s.opened(t, 1)
	require.Equal(t, "second", open[0].What)
	_, err = io.WriteString(c, permission(shellMessage("third")))
	require.NoError(t, err)
	s.opened(t, 0)        // the connection is over
	b, _ := io.ReadAll(c) // reset: what it sent is not read
	require.Contains(t, string(b), `"result":"approve"`)
	require.NotContains(t, string(b), "third")
}

// answerTo sends one message and returns status and body.
func answerTo(t testing.TB, sock, raw string) (int, string) {
	c := connect(t, sock)
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	go func() { _, _ = io.WriteString(c, raw) }()
	b, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if len(b) == 0 {
		return 0, ""
	}
	_ = err // a reset after the answer
	head, body, _ := strings.Cut(string(b), "\r\n\r\n")
	var status int
	_, err = fmt.Sscanf(head, "HTTP/1.1 %d", &status)
	require.NoError(t, err, "%q", head)
	return status, body
}

// Each bad message is refused, leaves no question, and the next good one is answered.
func TestBadMessagesAreRefused(t *testing.T) {
	s, sock := servedShim(t)
	closing := func(body string) string {
		return strings.Replace(permission(body), "Host: p\r\n", "Host: p\r\nConnection: close\r\n", 1)
	}
	for what, c := range map[string]struct {
		raw    string
		status int // 0: the connection is closed without an answer
		text   string
	}{
		"no HTTP":                     {raw: "\x00\x01\x02\r\n\r\n", status: 400},
		"a header without end":        {raw: "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", status: 431},
		"no route":                    {raw: "GET /v1/approvals HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n", status: 404},
		"an answer to one's question": {raw: "POST /v1/approvals/alice.x HTTP/1.1\r\nHost: p\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", status: 404},
		"another method":              {raw: "DELETE /v1/permission_request HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n", status: 405},
		"nothing":                     {raw: closing(""), status: 400},
		"no JSON":                     {raw: closing("{"), status: 400},
		"no object":                   {raw: closing("[1]"), status: 400},
		"two objects":                 {raw: closing(shellMessage("a") + shellMessage("b")), status: 400, text: "more than one"},
		"bytes that are not UTF-8":    {raw: closing("{\"tool\":\"bash\",\"input\":{\"command\":\"a\xff\"}}"), status: 400, text: "UTF-8"},
		"half a surrogate pair":       {raw: closing(`{"tool":"bash","input":{"command":"a\ud800"}}`), status: 400, text: "UTF-8"},
		"another agent's name":        {raw: closing(`{"tool":"bash","agent":"bob"}`), status: 400, text: "unknown field"},
		"an ID to answer":             {raw: closing(`{"tool":"bash","id":"bob.x","result":"approve"}`), status: 400, text: "unknown field"},
		"another type":                {raw: closing(`{"type":"permission_response","tool":"bash"}`), status: 400, text: "permission_request"},
		"no tool":                     {raw: closing(`{"input":{"command":"a"}}`), status: 400},
		"a time that is too long":     {raw: closing(`{"tool":"bash","input":{"command":"a"},"timeout_seconds":9999999}`), status: 400, text: "7 days"},
		"a deep object":               {raw: closing(`{"tool":"bash","input":` + strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000) + `}`), status: 400},
		"an oversized body":           {raw: closing(shellMessage(strings.Repeat("x", 2<<20))), status: 413},
		"an oversized command":        {raw: closing(shellMessage(strings.Repeat("x", 100<<10))), status: 413},
		"a length that is none":       {raw: "POST /v1/permission_request HTTP/1.1\r\nHost: p\r\nContent-Length: -1\r\n\r\n", status: 400},
		"two lengths":                 {raw: "POST /v1/permission_request HTTP/1.1\r\nHost: p\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", status: 400},
	} {
		t.Run(what, func(t *testing.T) {
			status, body := answerTo(t, sock, c.raw)
			require.Equal(t, c.status, status, body)
			require.Contains(t, body, c.text)
			require.Empty(t, s.approvals.Open())
		})
	}
}

// A caller that sends slowly is cut off, and keeps nobody from being heard.
func TestSlowCallersAreCutOff(t *testing.T) {
	t.Parallel()
	s, sock := servedShim(t)
	slow := make([]*net.UnixConn, 0, 100)
	message := permission(shellMessage("slow"))
	for i := range 100 {
		c := connect(t, sock)
		_, err := io.WriteString(c, message[:1+i*(len(message)-2)/100])
		require.NoError(t, err)
		slow = append(slow, c)
	}
	c := connect(t, sock)
	_, err := io.WriteString(c, permission(shellMessage("make")))
	require.NoError(t, err)
	require.Equal(t, "make", s.opened(t, 1)[0].What)
	for _, c := range slow {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*bodyTime)))
		_, err := io.Copy(io.Discard, c)
		require.NoError(t, err, "the server ends it")
	}
	require.Len(t, s.approvals.Open(), 1)
}

// Calls that wait hold what is shown to a person, not all that was sent.
func TestCallsThatWaitTakeBoundedMemory(t *testing.T) {
	s, sock := servedShim(t)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	// The same question by all callers, and nearly as large as one may be.
	body, err := json.Marshal(map[string]any{"tool": "bash", "input": map[string]any{"command": "make", "more": strings.Repeat("x", 500<<10)}})
	require.NoError(t, err)
	const callers = 40
	for range callers {
		c := connect(t, sock)
		_, err := io.WriteString(c, permission(string(body)))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { o := s.approvals.Open(); return len(o) == 1 && o[0].Callers == callers }, time.Minute, 10*time.Millisecond)
	used := int64(heap()) - int64(before)
	require.Less(t, used, int64(callers)*(128<<10), "bytes that %d calls of %d bytes hold", callers, len(body))
}

// FuzzMessages: whatever is sent to the sandbox's socket, no handler panics, nothing is left when the
// connection ends, and the next caller gets its answer.
func FuzzMessages(f *testing.F) {
	for _, route := range []string{"permission_request", "status_update", "task_complete"} {
		for _, body := range []string{shellMessage("make"), shellMessage("ok"), `{"type":"permission_request","requestId":"1","tool":"Read","input":{"file_path":"/a/../b"}}`,
			`{"message":"half","status":"working"}`, `{"success":false,"message":"no"}`, `{"tool":"x","input":{"a":[{"b":null}]},"timeout_seconds":1}`, "[", "\xff", "{}{}", `{"tool":"\ud800"}`} {
			f.Add([]byte(strings.Replace(permission(body), "permission_request", route, 1)))
			f.Add([]byte(strings.Replace(permission(body), "permission_request", route, 1) + permission(body) + "x"))
		}
	}
	f.Add([]byte("POST /v1/permission_request HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"too\r\n0\r\n\r\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	s := askingShim(f)
	set, err := policy.Compile(policy.Rules{Write: []string{"**"}, Hide: []string{"secret/**"}})
	require.NoError(f, err)
	guard, err := view.New(view.Config{Agent: "alice", Locker: locker{}}, set)
	require.NoError(f, err)
	s.views = &views{guard: guard, locks: lockd.NewClient("/nonexistent", "/w", "alice")}
	tools, err := approval.Compile(api.ToolRules{AutoApprove: []string{"shell(ok)"}})
	require.NoError(f, err)
	s.toolRules.Store(&approval.Rules{Tools: tools})
	var panics atomic.Pointer[any]
	mux := http.NewServeMux()
	for pattern, h := range s.messageRoutes() {
		handler := serveHTTP(wholeBody(h))
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if p := recover(); p != nil {
					panics.Store(&p)
				}
			}()
			handler(w, r)
		})
	}
	sock := serve(f, s.serverOf(mux))
	good := strings.Replace(permission(shellMessage("ok")), "Host: p", "Host: p\r\nConnection: close", 1)
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := connect(t, sock)
		_, _ = c.Write(sent) // refused, perhaps
		_ = c.Close()
		status, body := answerTo(t, sock, good)
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, `"result":"approve"`)
		if p := panics.Load(); p != nil {
			t.Fatalf("a handler panicked: %v", *p)
		}
		s.opened(t, 0)
	})
}
