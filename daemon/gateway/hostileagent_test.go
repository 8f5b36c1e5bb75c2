package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// converse sends bytes to the endpoint, and a request that ends the connection. It returns all answers.
func (e *endpoint) converse(t *testing.T, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = io.WriteString(c, request+"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") // a refusal can come before its end
	b, _ := io.ReadAll(c)                                                                                     // a reset after the answer
	return string(b)
}

// both has the model services and one of [services], to the same stand-in.
func both(url string) (m []string, e func(t *testing.T) *endpoint) {
	return []string{"/anthropic/v1/messages", "/tracker/items/1/notes"}, func(t *testing.T) *endpoint {
		models := all(url)
		models.Services = web(url).Services
		return newEndpoint(t, models)
	}
}

// whole returns the bodies that reached their end, and the last of their requests. s.mu is held.
func (s *standIn) whole() (bodies []string, last *http.Request) {
	for i, b := range s.bodies {
		if !strings.HasSuffix(b, cutBody) {
			bodies, last = append(bodies, b), s.seen[i]
		}
	}
	return bodies, last
}

// request is one of HTTP/1.1 with a body that is not framed yet.
func request(path, headers, rest string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n%s", path, headers, rest)
}

// TestOddFramingReachesNoService: requests that two programs could read differently, and other protocols. What reaches
// the service is a request that the gateway wrote itself.
func TestOddFramingReachesNoService(t *testing.T) {
	const ok, chunked = `{"model":"m"}`, "Transfer-Encoding: chunked\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(ok))
	long := strings.Repeat("x", 8<<10)
	s := newStandIn(t)
	paths, open := both(s.URL)
	e := open(t)
	e.bodyTime = 500 * time.Millisecond // of bodies that do not end
	for _, path := range paths {
		for name, c := range map[string]struct {
			request string
			status  string // of the first answer; "" is a refusal, or a connection that is closed
			got     string // the body that the service got, if it got one
		}{
			"plain":                            {request(path, length, ok), "200", ok},
			"chunks":                           {request(path, chunked, "d\r\n"+ok+"\r\n0\r\n\r\n"), "200", ok},
			"chunks of a byte":                 {request(path, chunked, "1\r\n{\r\nc\r\n"+ok[1:]+"\r\n0\r\n\r\n"), "200", ok},
			"extension of a chunk":             {request(path, chunked, "d;name=\"v\"\r\n"+ok+"\r\n0\r\n\r\n"), "200", ok},
			"trailer":                          {request(path, chunked+"Trailer: Authorization\r\n", "d\r\n"+ok+"\r\n0\r\nAuthorization: Bearer x\r\n\r\n"), "200", ok},
			"trailer that was not announced":   {request(path, chunked, "d\r\n"+ok+"\r\n0\r\nX-Api-Key: x\r\nContent-Length: 3\r\n\r\n"), "200", ok},
			"expects to continue":              {request(path, length+"Expect: 100-continue\r\n", ok), "100", ok},
			"hop-by-hop headers":               {request(path, length+"Connection: X-Api-Key, Authorization, Host, Content-Length\r\nTE: trailers\r\nKeep-Alive: 9\r\nProxy-Connection: x\r\n", ok), "200", ok},
			"lines that end with LF":           {strings.ReplaceAll(request(path, length, ""), "\r\n", "\n") + ok, "200", ok},
			"2000 headers":                     {request(path, length+strings.Repeat("A: b\r\n", 2000), ok), "200", ok},
			"20000 headers":                    {request(path, length+strings.Repeat("A: b\r\n", 20000), ok), "431", ""},
			"expects something else":           {request(path, length+"Expect: 200-ok\r\n", ok), "417", ""},
			"extension that is too long":       {request(path, chunked, "d;"+long+"\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"many extensions":                  {request(path, chunked, strings.Repeat("1;"+long[:2000]+"\r\n{\r\n", 40)+"0\r\n\r\n"), "", ""},
			"trailer that is too long":         {request(path, chunked, "d\r\n"+ok+"\r\n0\r\nX: "+long+"\r\n\r\n"), "", ""},
			"chunk that ends with LF":          {request(path, chunked, "d\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunk that is longer":             {request(path, chunked, "5\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunk without a size":             {request(path, chunked, "\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunk with a negative size":       {request(path, chunked, "-d\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunk with a prefix":              {request(path, chunked, "0xd\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunk with a size of 65 bits":     {request(path, chunked, "1000000000000000d\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunks that do not end":           {request(path, chunked, "d\r\n"+ok+"\r\n"), "", ""},
			"chunked twice":                    {request(path, chunked+chunked, "d\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunked, and another":             {request(path, "Transfer-Encoding: chunked, identity\r\n", "d\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"another, and chunked":             {request(path, "Transfer-Encoding: gzip, chunked\r\n", "d\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"chunked with a vertical tab":      {request(path, "Transfer-Encoding: \x0bchunked\r\n", "d\r\n"+ok+"\r\n0\r\n\r\n"), "", ""},
			"space before the colon":           {request(path, "Content-Length : 13\r\n", ok), "400", ""},
			"length with a sign":               {request(path, "Content-Length: +13\r\n", ok), "400", ""},
			"length below 0":                   {request(path, "Content-Length: -1\r\n", ok), "400", ""},
			"length as a list":                 {request(path, "Content-Length: 13, 13\r\n", ok), "400", ""},
			"length in another base":           {request(path, "Content-Length: 0xd\r\n", ok), "400", ""},
			"body that is shorter":             {request(path, "Content-Length: 99\r\n", ok), "", ""},
			"CR in a header":                   {request(path, length+"X-A: b\rX-C: d\r\n", ok), "400", ""},
			"LF in a name":                     {request(path, length+"X-\nA: b\r\n", ok), "400", ""},
			"header without a name":            {request(path, length+": b\r\n", ok), "400", ""},
			"first header is folded":           {strings.Replace(request(path, length, ok), "\r\nHost", "\r\n Host", 1), "400", ""},
			"HTTP/2 without asking":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "400", ""},
			"HTTP/2 by upgrade":                {request(path, length+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", ok), "426", ""},
			"a WebSocket":                      {request(path, length+"Connection: keep-alive, uPgRaDe\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n", ok), "426", ""},
			"upgrade in a second Connection":   {request(path, length+"Connection: keep-alive\r\nConnection: upgrade\r\n", ok), "426", ""},
			"upgrade without Connection":       {request(path, length+"Upgrade: websocket\r\n", ok), "426", ""},
			"HTTP/0.9":                         {"GET " + path + "\r\n", "400", ""},
			"HTTP/1.0 without a Host":          {"POST " + path + " HTTP/1.0\r\n" + length + "\r\n" + ok, "400", ""},
			"HTTP/3.7":                         {strings.Replace(request(path, length, ok), "HTTP/1.1", "HTTP/3.7", 1), "505", ""},
			"TLS":                              {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", ""},
			"Host with a user":                 {strings.Replace(request(path, length, ok), "127.0.0.1", "127.0.0.1@evil.example.com", 1), "400", ""},
			"Host that begins as the endpoint": {strings.Replace(request(path, length, ok), "127.0.0.1", "127.0.0.1.evil.example.com", 1), "400", ""},
			"Host with a path":                 {strings.Replace(request(path, length, ok), "127.0.0.1", "127.0.0.1/evil", 1), "400", ""},
			"Host as a list":                   {strings.Replace(request(path, length, ok), "127.0.0.1", "127.0.0.1, evil.example.com", 1), "400", ""},
			"Host as a number":                 {strings.Replace(request(path, length, ok), "127.0.0.1", "2130706433", 1), "400", ""},
			"Host that is any address":         {strings.Replace(request(path, length, ok), "127.0.0.1", "0.0.0.0", 1), "400", ""},
			"Host that is empty":               {strings.Replace(request(path, length, ok), "127.0.0.1", "", 1), "400", ""},
			"Host of a service with a dot":     {strings.Replace(request(path, length, ok), "127.0.0.1", "tracker.polis.internal.", 1), "400", ""},
			"Host of no service":               {strings.Replace(request(path, length, ok), "127.0.0.1", ".polis.internal", 1), "404", ""},
			"Host with a service as a user":    {strings.Replace(request(path, length, ok), "127.0.0.1", "tracker@x.polis.internal", 1), "400", ""},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				s.mu.Lock()
				s.requests, s.seen, s.bodies = 0, nil, nil
				s.mu.Unlock()
				got := e.converse(t, c.request)
				require.NotContains(t, got, realKey)
				line, _, _ := strings.Cut(got, "\r\n")
				s.mu.Lock()
				defer s.mu.Unlock()
				if c.got != "" {
					require.Contains(t, line, " "+c.status+" ")
					require.Contains(t, got, "HTTP/1.1 200 OK\r\n")
					whole, r := s.whole()
					require.Equal(t, []string{c.got}, whole)
					require.Empty(t, r.Trailer)
					require.Equal(t, "HTTP/1.1", r.Proto)
					require.Contains(t, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"), realKey, "with the key, whatever Connection has")
					for _, h := range []string{"Expect", "Te", "Keep-Alive", "Proxy-Connection", "Connection", "Upgrade", "Trailer", "A"} {
						require.Empty(t, r.Header.Get(h), h)
					}
					return
				}
				require.NotContains(t, got, " 200 ")
				if c.status != "" {
					require.Contains(t, line, " "+c.status+" ")
				}
				whole, _ := s.whole() // a service can get the beginning of a body, and sees that it is cut
				require.Empty(t, whole)
			})
		}
	}
	// HTTP/1.0 has no chunks: it is a request without a body, and the connection ends.
	s.mu.Lock()
	s.seen, s.bodies = nil, nil
	s.mu.Unlock()
	got := e.converse(t, strings.Replace(request("/tracker/items/1/notes", chunked, "d\r\n"+ok+"\r\n0\r\n\r\n"), "HTTP/1.1", "HTTP/1.0", 1))
	require.Equal(t, 1, strings.Count(got, "HTTP/1."))
	s.mu.Lock()
	defer s.mu.Unlock()
	whole, _ := s.whole()
	require.Equal(t, []string{""}, whole)
	require.Eventually(t, func() bool { return len(e.slots) == 0 }, 20*time.Second, time.Millisecond)
}

// TestRequestsInOneConnectionAreReadApart: what follows a body is the next request of the same agent.
func TestRequestsInOneConnectionAreReadApart(t *testing.T) {
	const ok = `{"model":"m"}`
	s := newStandIn(t)
	paths, open := both(s.URL)
	e := open(t)
	var all string
	for _, path := range paths {
		all += request(path, "Content-Length: 13\r\n", ok) + request(path, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "d\r\n"+ok+"\r\n0\r\n\r\n")
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, all+request("/anthropic/v1/files", "Connection: close\r\n", ""))
	require.NoError(t, err)
	in := bufio.NewReader(c)
	for i, want := range []int{200, 200, 200, 200, 404} {
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err, i)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.Equal(t, want, resp.StatusCode, i)
	}
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, []string{ok, ok, ok, ok}, s.bodies)
}

// TestACompressedBodyIsNeitherReadNorExpanded: a model service gets none, and another service as it is.
func TestACompressedBodyIsNeitherReadNorExpanded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(bytes.Repeat([]byte(" "), 8<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	s := newStandIn(t)
	_, open := both(s.URL)
	e := open(t)
	for _, encoding := range []string{"gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip", "gzip, identity", "identity\r\nContent-Encoding: gzip", "none"} {
		t.Run(encoding, func(t *testing.T) {
			s.mu.Lock()
			s.bodies = nil
			s.mu.Unlock()
			headers := fmt.Sprintf("Content-Encoding: %s\r\nConnection: close\r\nContent-Length: %d\r\n", encoding, bomb.Len())
			got := e.converse(t, request("/anthropic/v1/messages", headers, bomb.String()))
			require.Contains(t, got, "HTTP/1.1 400 ")
			require.Contains(t, got, "must not be compressed")
			require.Contains(t, e.converse(t, request("/tracker/items/1/notes", headers, bomb.String())), "HTTP/1.1 400 ", "without a type it could be a form")
			got = e.converse(t, request("/tracker/items/1/notes", "Content-Type: application/octet-stream\r\n"+headers, bomb.String()))
			require.Contains(t, got, "HTTP/1.1 200 ")
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Equal(t, []string{bomb.String()}, s.bodies)
		})
	}
}
