package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// shimThat returns a client of a daemon whose one agent has a shim that does
// fn with the upgraded connection.
func shimThat(t testing.TB, fn func(net.Conn, io.Reader)) *Client {
	t.Helper()
	return shimWith(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.Upgrade+"\r\n\r\n")
		fn(conn, rw)
	})
}

func shimWith(t testing.TB, h http.HandlerFunc) *Client {
	t.Helper()
	shim := serve(t, h)
	return serve(t, reply(200, "application/json", `{"agent":"claude","socket":"`+shim.Socket+`"}`))
}

func exit(w *wire.Writer, code int32) {
	_ = w.Write(wire.FrameExit, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

func TestSessionKeepsStreamsApartAndReturnsTheStatus(t *testing.T) {
	c := shimThat(t, func(conn net.Conn, in io.Reader) {
		out := wire.NewWriter(conn)
		var stdin []byte
		for {
			kind, p, err := wire.Read(in, nil)
			if err != nil || kind != wire.FrameStdin {
				return
			}
			if len(p) == 0 {
				break
			}
			stdin = append(stdin, p...)
		}
		_ = out.Write(wire.FrameStdout, stdin)
		_ = out.Write(wire.FrameStderr, []byte("err"))
		exit(out, 200)
	})
	s, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
	require.NoError(t, err)
	defer s.Close()
	big := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // several frames
	go func() {
		_, _ = s.Stdin().Write(big)
		_ = s.CloseStdin()
	}()
	var stdout, stderr bytes.Buffer
	code, err := s.Run(t.Context(), &stdout, &stderr)
	require.NoError(t, err)
	require.Equal(t, 200, code)
	require.True(t, bytes.Equal(big, stdout.Bytes()))
	require.Equal(t, "err", stderr.String())
}

func TestSessionSendsSizesAndSignals(t *testing.T) {
	type frame struct {
		kind wire.FrameType
		data string
	}
	got := make(chan frame, 2)
	c := shimThat(t, func(conn net.Conn, in io.Reader) {
		for range 2 {
			kind, p, err := wire.Read(in, nil)
			if err != nil {
				return
			}
			got <- frame{kind, string(p)}
		}
		exit(wire.NewWriter(conn), 0)
	})
	s, err := c.AttachTo(t.Context(), "claude", wire.ExecRequest{TTY: true})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Resize(51, 300))
	require.NoError(t, s.Signal(unix.SIGTERM))
	_, err = s.Run(t.Context(), io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, frame{wire.FrameResize, "\x00\x33\x01\x2c"}, <-got)
	require.Equal(t, frame{wire.FrameSignal, "\x0f"}, <-got)
}

func TestSessionRefusesBrokenShims(t *testing.T) {
	for name, send := range map[string]func(*wire.Writer, io.Writer){
		"ends without exit":   func(*wire.Writer, io.Writer) {},
		"ends within a frame": func(_ *wire.Writer, w io.Writer) { _, _ = w.Write([]byte{2, 0, 0, 0, 9, 'x'}) },
		"unknown frame":       func(_ *wire.Writer, w io.Writer) { _, _ = w.Write([]byte{99, 0, 0, 0, 0}) },
		"oversized frame":     func(_ *wire.Writer, w io.Writer) { _, _ = w.Write([]byte{2, 0xff, 0, 0, 0}) },
		"a client's frame":    func(w *wire.Writer, _ io.Writer) { _ = w.Write(wire.FrameStdin, []byte("x")) },
		"short exit":          func(w *wire.Writer, _ io.Writer) { _ = w.Write(wire.FrameExit, []byte{1}) },
		"unreadable error":    func(w *wire.Writer, _ io.Writer) { _ = w.Write(wire.FrameError, []byte("no")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := shimThat(t, func(conn net.Conn, _ io.Reader) { send(wire.NewWriter(conn), conn) })
			s, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
			require.NoError(t, err)
			defer s.Close()
			_, err = s.Run(t.Context(), io.Discard, io.Discard)
			require.Equal(t, api.CodeShimUnavailable, api.CodeOf(err))
			require.Contains(t, err.Error(), "claude")
		})
	}
}

func TestSessionErrorFrameIsTheError(t *testing.T) {
	c := shimThat(t, func(conn net.Conn, _ io.Reader) {
		_ = wire.NewWriter(conn).Write(wire.FrameError, []byte(`{"code":"OOM_KILLED","message":"killed"}`))
	})
	s, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Run(t.Context(), io.Discard, io.Discard)
	require.Equal(t, api.CodeOOMKilled, api.CodeOf(err))
}

func TestSessionEndsWithItsContextAndItsOutput(t *testing.T) {
	c := shimThat(t, func(conn net.Conn, in io.Reader) {
		_ = wire.NewWriter(conn).Write(wire.FrameStdout, []byte("x"))
		_, _, _ = wire.Read(in, nil) // until the client goes
	})
	s, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
	require.NoError(t, err)
	defer s.Close()
	why := errors.New("detached")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = s.Run(ctx, writerFunc(func() error { cancel(why); return nil }), io.Discard)
	require.ErrorIs(t, err, why)

	s2, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
	require.NoError(t, err)
	defer s2.Close()
	_, err = s2.Run(t.Context(), writerFunc(func() error { return unix.ENOSPC }), io.Discard)
	require.ErrorIs(t, err, unix.ENOSPC)
}

type writerFunc func() error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f() }

func TestHandshakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		h    http.HandlerFunc
		code api.Code
	}{
		{"refused by the shim", reply(400, "application/json", `{"code":"COMMAND_NOT_FOUND","message":"no x"}`), api.CodeCommandNotFound},
		{"not a shim", reply(200, "text/html", "hello"), api.CodeInternal},
		{"another protocol", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: polis-frames/9\r\n\r\n")
		}, api.CodeShimUnavailable},
		{"hangs up", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}, api.CodeShimUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := shimWith(t, tc.h).Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
			require.Equal(t, tc.code, api.CodeOf(err), err)
		})
	}
}

func TestHandshakeIsBounded(t *testing.T) {
	c := shimWith(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c.Handshake = 50 * time.Millisecond
	_, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
	require.Equal(t, api.CodeTimeout, api.CodeOf(err))
}

func TestExecWithoutShim(t *testing.T) {
	c := serve(t, reply(200, "application/json", `{"agent":"claude","socket":"`+filepath.Join(socketDir(t), "none")+`"}`))
	_, err := c.Exec(t.Context(), "claude", wire.ExecRequest{Command: []string{"x"}})
	require.Equal(t, api.CodeShimUnavailable, api.CodeOf(err))
	require.Contains(t, api.AsError(err).Hint, "polisctl agents start claude")
}

func TestFramesSurviveAnyCutting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "data")
		if rapid.Bool().Draw(t, "large") {
			data = bytes.Repeat(append(data, 1), wire.MaxFrame/max(len(data), 1)+3)
		}
		kind := wire.FrameType(rapid.IntRange(int(wire.FrameStdin), int(wire.FrameError)).Draw(t, "kind"))
		var buf bytes.Buffer
		require.NoError(t, wire.NewWriter(&buf).Write(kind, data))
		var got []byte
		r := &choppy{r: &buf, n: rapid.IntRange(1, 70000).Draw(t, "cut")}
		for {
			k, p, err := wire.Read(r, nil)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, kind, k)
			require.LessOrEqual(t, len(p), wire.MaxFrame)
			got = append(got, p...)
		}
		require.True(t, bytes.Equal(data, got))
	})
}

// choppy returns at most n bytes at a time.
type choppy struct {
	r io.Reader
	n int
}

func (c *choppy) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }

// FuzzSession feeds a session what a broken or hostile shim may send.
func FuzzSession(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 1, 'x', 6, 0, 0, 0, 4, 0, 0, 0, 3})
	f.Add([]byte{7, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{2, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		s := &Session{agent: "claude", conn: a, in: wire.NewWriter(a), out: bufioReader(stream)}
		var out bytes.Buffer
		code, err := s.Run(t.Context(), &out, &out)
		if err != nil {
			require.Zero(t, code)
			var e *api.Error
			require.ErrorAs(t, err, &e)
		}
		require.LessOrEqual(t, out.Len(), len(stream))
	})
}

// FuzzFrames: what is read can be written again as the same bytes.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Add([]byte{4, 0, 0, 0, 4, 0, 24, 0, 80})
	f.Add([]byte{0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, stream []byte) {
		kind, p, err := wire.Read(bytes.NewReader(stream), nil)
		if err != nil {
			return
		}
		var buf bytes.Buffer
		require.NoError(t, wire.NewWriter(&buf).Write(kind, p))
		require.True(t, strings.HasPrefix(string(stream), buf.String()))
	})
}

func bufioReader(p []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(p)) }
