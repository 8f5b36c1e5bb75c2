package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipeWriter has the deadlines of the connection that the body comes from.
type pipeWriter struct {
	http.ResponseWriter
	net.Conn
}

func (w pipeWriter) SetReadDeadline(at time.Time) error {
	if err := w.Conn.SetReadDeadline(at); !errors.Is(err, io.ErrClosedPipe) { // a connection that the other end has closed has deadlines
		return err
	}
	return nil
}

func (w pipeWriter) Header() http.Header         { return http.Header{} }
func (w pipeWriter) Write(p []byte) (int, error) { return len(p), nil }

func TestABodyMustComeAtALeastRate(t *testing.T) {
	type part struct {
		times, bytes int
		pause        time.Duration // after each
	}
	for name, c := range map[string]struct {
		parts []part
		slow  time.Duration // the service takes so long for each read
		cut   bool
		most  time.Duration // until the end
	}{
		"at once":                            {parts: []part{{1, 30 << 20, 0}}, most: time.Second},
		"nothing":                            {parts: []part{{1, 1, 2 * time.Hour}}, cut: true, most: 2 * time.Minute},
		"a byte in 59 seconds":               {parts: []part{{1000, 1, 59 * time.Second}}, cut: true, most: 2 * time.Minute},
		"ten bytes a second":                 {parts: []part{{100_000, 1, 100 * time.Millisecond}}, cut: true, most: 61 * time.Second},
		"four KiB a second":                  {parts: []part{{100_000, 4 << 10, time.Second}}, cut: true, most: 3 * time.Minute},
		"nine KiB a second for an hour":      {parts: []part{{3600, 9 << 10, time.Second}}, most: time.Hour + time.Minute},
		"a MiB in 50 seconds for an hour":    {parts: []part{{72, 1 << 20, 50 * time.Second}}, most: time.Hour + time.Minute},
		"one pause that is short enough":     {parts: []part{{1, 1, 55 * time.Second}, {1, 1 << 20, 0}}, most: time.Minute},
		"much, and then a byte now and then": {parts: []part{{1, 30 << 20, 0}, {1000, 1, 59 * time.Second}}, cut: true, most: 11 * time.Minute},
		"a service that is slow to take it":  {parts: []part{{100, 16 << 10, 0}}, slow: time.Hour, most: 200 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				done := make(chan struct{})
				defer close(done)
				go func() {
					defer theirs.Close()
					for _, p := range c.parts {
						for range p.times {
							if _, err := theirs.Write(make([]byte, p.bytes)); err != nil {
								return
							}
							select {
							case <-time.After(p.pause):
							case <-done:
								return
							}
						}
					}
				}()
				b := New().newBodyReader(pipeWriter{Conn: ours}, &http.Request{Body: ours}, maxWebBody)
				began, heard := time.Now(), 0
				b.heard = func() { heard++ }
				var err error
				for buf := make([]byte, 32<<10); err == nil; {
					_, err = b.Read(buf)
					time.Sleep(c.slow)
				}
				require.LessOrEqual(t, time.Since(began), c.most)
				require.Positive(t, heard)
				if c.cut {
					require.ErrorIs(t, err, errBody)
				} else {
					require.ErrorIs(t, err, io.EOF)
				}
			})
		})
	}
}

// TestADribbledBodyFreesItsRequest: of both kinds of services, also after `Expect: 100-continue`.
func TestADribbledBodyFreesItsRequest(t *testing.T) {
	s := newStandIn(t)
	m := all(s.URL)
	m.Services = web(s.URL).Services
	for _, path := range []string{"/anthropic/v1/messages", "/tracker/items/1/notes"} {
		for _, framing := range []string{"Content-Length: 30000000", "Transfer-Encoding: chunked"} {
			t.Run(path+" "+framing, func(t *testing.T) {
				e := newEndpoint(t, m)
				e.bodyTime = 300 * time.Millisecond
				c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
				require.NoError(t, err)
				defer c.Close()
				_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n%s\r\n\r\n", path, framing)
				require.NoError(t, err)
				answer := make(chan string, 1)
				go func() {
					b, _ := io.ReadAll(c)
					answer <- string(b)
				}()
				part := "1\r\n{\r\n"
				if strings.HasPrefix(framing, "Content-Length") {
					part = "{"
				}
				var got string
				for end := time.Now().Add(time.Minute); got == "" && time.Now().Before(end); {
					_, werr := io.WriteString(c, part)
					select {
					case got = <-answer:
					case <-time.After(50 * time.Millisecond):
						require.True(t, werr == nil || !errors.Is(werr, net.ErrClosed))
					}
				}
				require.Contains(t, got, "HTTP/1.1 100 Continue\r\n")
				require.Contains(t, got, "HTTP/1.1 400 Bad Request\r\n")
				require.Contains(t, got, errBody.Error())
				require.Eventually(t, func() bool { return len(e.slots) == 0 }, 20*time.Second, time.Millisecond)
			})
		}
	}
}

// TestASilentServiceFreesTheRequest: one that sends nothing more, or takes nothing more, of [services].
func TestASilentServiceFreesTheRequest(t *testing.T) {
	gone := make(chan struct{}, 2)
	_, e, c := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "the beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
	e.silence = 50 * time.Millisecond
	resp := e.do("GET", "/tracker/items/1", "")
	b, err := io.ReadAll(resp.Body)
	require.Error(t, err, "the agent sees that it is cut")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "the beginning", string(b))
	<-gone
	require.Equal(t, Call{Service: "tracker", Method: "GET", Path: "/items/1", Status: 200, Received: 13}, c.last(t))
}
