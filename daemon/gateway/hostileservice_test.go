package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rawService answers each request with bytes as they are, and never closes a connection by itself.
type rawService struct {
	net.Listener
	mu     sync.Mutex
	answer func(w io.Writer) // of the next request
	usual  func(w io.Writer) // of the others
}

const good = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"good\":\"true\"}"

func newRawService(t *testing.T) *rawService {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawService{Listener: l, usual: func(w io.Writer) { _, _ = io.WriteString(w, good) }}
	var wg sync.WaitGroup
	var conns sync.Map
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, true)
			wg.Go(func() {
				defer c.Close()
				s.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return s
}

func (s *rawService) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		s.mu.Lock()
		answer := s.answer
		s.answer = nil
		s.mu.Unlock()
		if answer == nil {
			answer = s.usual
		}
		answer(c)
	}
}

func (s *rawService) next(answer func(w io.Writer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// always sets the answer to each request without one of its own.
func (s *rawService) always(answer func(w io.Writer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usual = answer
}

// syncBuffer is a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is part of io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestOddAnswersHarmNobody: a service, or a proxy before it, answers with what two programs could read differently, or
// repeats the key where nobody looks. The agent gets a failure, or an answer that the gateway wrote itself, and its
// next request the answer to it.
func TestOddAnswersHarmNobody(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	chunked := func(headers, body string) string {
		return ok + "Transfer-Encoding: chunked\r\n" + headers + "\r\n" + body
	}
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	encoded := func(encoding, body string) string {
		return fmt.Sprintf("%sContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", ok, encoding, len(body), body)
	}
	const fails, cut = "fails", "is cut"
	for name, odd := range map[string]struct{ answer, want string }{
		"plain":                                {good, `{"good":"true"}`},
		"a second answer":                      {ok + "Content-Length: 2\r\n\r\n{}" + ok + "Content-Length: 8\r\n\r\npoisoned", "{}"},
		"more than its length":                 {ok + "Content-Length: 2\r\n\r\n{}poisoned", "{}"},
		"less than its length":                 {ok + "Content-Length: 20\r\nConnection: close\r\n\r\n{}", cut},
		"two lengths":                          {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", fails},
		"the same length twice":                {ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"length with a sign":                   {ok + "Content-Length: +2\r\n\r\n{}", fails},
		"length and chunks":                    {chunked("Content-Length: 99\r\n", "2\r\n{}\r\n0\r\n\r\n"), "{}"},
		"unknown transfer encoding":            {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", fails},
		"chunks that do not end":               {chunked("Connection: close\r\n", "2\r\n{}\r\n"), cut},
		"chunk with a long extension":          {chunked("", "2;"+strings.Repeat("x", 8<<10)+"\r\n{}\r\n0\r\n\r\n"), cut},
		"chunk that ends with LF":              {chunked("", "2\n{}\r\n0\r\n\r\n"), cut},
		"chunk of 65 bits":                     {chunked("", "10000000000000002\r\n{}\r\n0\r\n\r\n"), cut},
		"trailer with the key":                 {chunked("Trailer: X-Late\r\n", "2\r\n{}\r\n0\r\nX-Late: "+realKey+"\r\n\r\n"), "{}"},
		"trailer that was not announced":       {chunked("", "2\r\n{}\r\n0\r\nX-Late: "+realKey+"\r\nSet-Cookie: a=b\r\n\r\n"), "{}"},
		"a trailer without end":                {chunked("", "2\r\n{}\r\n0\r\nX-Late: "+strings.Repeat("x", 16<<10)+"\r\n\r\n"), cut},
		"key in an extension of a chunk":       {chunked("", "2;"+realKey+"\r\n{}\r\n0\r\n\r\n"), "{}"},
		"key in the reason":                    {"HTTP/1.1 200 " + realKey + "\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"key as a name":                        {ok + "X-" + realKey + ": a\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"key in a folded header":               {ok + "X-A: " + realKey[:9] + "\r\n " + realKey[9:] + "\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"key in a repeated header":             {ok + "X-A: b\r\nX-A: " + realKey + "\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"key in a header that Connection has":  {ok + "Connection: X-A\r\nX-A: " + realKey + "\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"key in parts of chunks":               {chunked("", "9\r\n"+realKey[:9]+"\r\nf\r\n"+realKey[9:]+"\r\n0\r\n\r\n"), strings.Repeat("*", len(realKey))},
		"a header in a header":                 {ok + "X-A: b\rSet-Cookie: poisoned\r\nContent-Length: 2\r\n\r\n{}", fails + " or {}"},
		"NUL in a header":                      {ok + "X-A: b\x00c\r\nContent-Length: 2\r\n\r\n{}", fails + " or {}"},
		"header without a colon":               {ok + "poisoned\r\nContent-Length: 2\r\n\r\n{}", fails},
		"header with a space in its name":      {ok + "X A: b\r\nContent-Length: 2\r\n\r\n{}", fails + " or {}"},
		"lines that end with LF":               {"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", "{}"},
		"status of no answer":                  {"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\n{}", fails},
		"key as a status":                      {"HTTP/1.1 " + realKey + " OK\r\n\r\n", fails},
		"key in place of an answer":            {"you sent " + realKey + "\r\n\r\n", fails},
		"key as a length":                      {ok + "Content-Length: " + realKey + "\r\n\r\n", fails},
		"status that is no number":             {"HTTP/1.1 2x0 OK\r\nContent-Length: 2\r\n\r\n{}", fails},
		"status above all":                     {"HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\n{}", "{}"},
		"another version":                      {"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", fails + " or {}"},
		"another protocol":                     {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\npoisoned", fails},
		"interim answers with the key":         {"HTTP/1.1 100 Continue\r\nX-A: " + realKey + "\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <" + realKey + ">\r\n\r\nHTTP/1.1 199 x\r\n\r\n" + good, `{"good":"true"}`},
		"no content, and content":              {"HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\npoisoned", ""},
		"not modified, and content":            {"HTTP/1.1 304 Not Modified\r\nContent-Length: 8\r\n\r\npoisoned", fails + " or "},
		"20000 headers":                        {ok + strings.Repeat("A: b\r\n", 20_000) + "Content-Length: 2\r\n\r\n{}", fails + " or {}"},
		"100000 headers":                       {ok + strings.Repeat("A: b\r\n", 100_000) + "Content-Length: 2\r\n\r\n{}", fails},
		"compressed":                           {encoded("gzip", zip("a "+realKey)), "a " + strings.Repeat("*", len(realKey))},
		"compressed, in two parts":             {encoded("gzip", zip("a "+realKey[:9])+zip(realKey[9:]+" b")), "a " + strings.Repeat("*", len(realKey)) + " b"},
		"compressed, in capitals":              {encoded("GZip", zip("text")), "text"},
		"compressed, and something else after": {encoded("gzip", zip("text")+"poisoned"), cut},
		"compressed, and cut":                  {encoded("gzip", zip(strings.Repeat("text", 99))[:20]), cut},
		"compressed, it says":                  {encoded("gzip", "{}"), cut},
		"compressed twice":                     {encoded("gzip, gzip", zip(zip(realKey))), fails},
		"compressed in two headers":            {encoded("identity\r\nContent-Encoding: gzip", zip(realKey)), fails},
		"compressed with zstd":                 {encoded("zstd", "\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00a"), fails},
		"compressed with deflate":              {encoded("deflate", "x"), fails},
		"compressed with something unknown":    {encoded("x-new", "x"), fails},
	} {
		for _, path := range []string{"/anthropic/v1/messages", "/tracker/items/1/notes"} {
			t.Run(path+" "+name, func(t *testing.T) {
				s := newRawService(t)
				models := all("http://" + s.Addr().String())
				models.Services = web("http://" + s.Addr().String()).Services
				e := newEndpoint(t, models)
				var log syncBuffer
				e.Log = slog.New(slog.NewTextHandler(&log, nil))
				c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
				var shown bytes.Buffer
				in := bufio.NewReader(io.TeeReader(c, &shown))
				ask := func() (status int, body string, err error) {
					body = `{"model":"m"}`
					if _, err := io.WriteString(c, request(path, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)); err != nil {
						return 0, "", err
					}
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						return 0, "", err
					}
					defer resp.Body.Close()
					b, err := io.ReadAll(resp.Body)
					require.Empty(t, resp.Trailer)
					return resp.StatusCode, string(b), err
				}
				s.next(func(w io.Writer) {
					_, _ = io.WriteString(w, odd.answer)
					if strings.Contains(odd.answer, "Connection: close") {
						_ = w.(io.Closer).Close()
					}
				})
				status, body, err := ask()
				switch failed := status == http.StatusBadGateway && strings.Contains(body, "_FAILED"); {
				case odd.want == cut:
					require.True(t, err != nil || failed, "%d %q", status, body)
				case odd.want == fails:
					require.NoError(t, err)
					require.True(t, failed, "%d %q", status, body)
				case strings.HasPrefix(odd.want, fails):
					require.NoError(t, err)
					require.True(t, failed || body == strings.TrimPrefix(odd.want, fails+" or "), "%d %q", status, body)
				default:
					require.NoError(t, err)
					require.Equal(t, odd.want, body)
				}
				require.Eventually(t, func() bool { return e.total().Requests == 1 || path[1] != 'a' }, 20*time.Second, time.Millisecond, "it is counted")
				if err == nil { // the connection continues
					status, body, err = ask()
					require.NoError(t, err)
					require.Equal(t, 200, status)
					require.JSONEq(t, `{"good":"true"}`, body)
				}
				text := strings.ToLower(shown.String())
				require.NotContains(t, text, realKey)
				require.NotContains(t, log.String(), realKey)
				require.NotContains(t, text, "poisoned\r\n")
				require.NotContains(t, text, "set-cookie:")
				require.NotContains(t, text, "x-late")
				require.NotContains(t, text, "http/1.1 1")
				require.Eventually(t, func() bool { return len(e.slots) == 0 }, 20*time.Second, time.Millisecond)
			})
		}
	}
}
