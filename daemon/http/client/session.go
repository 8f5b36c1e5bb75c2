package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// Session is a process of an agent attached to this client. Input methods may
// be used from several goroutines while Run reads the output.
type Session struct {
	agent string
	conn  net.Conn
	in    *wire.Writer
	out   *bufio.Reader
	room  *window // nil: input is not limited
}

// Exec starts a command in the agent's sandbox and attaches to it.
func (c *Client) Exec(ctx context.Context, agent string, req wire.ExecRequest) (*Session, error) {
	return c.open(ctx, agent, "/v1/exec", req)
}

// AttachTo attaches to the agent's main command; req.Command is ignored.
func (c *Client) AttachTo(ctx context.Context, agent string, req wire.ExecRequest) (*Session, error) {
	return c.open(ctx, agent, "/v1/attach", req)
}

func (c *Client) open(ctx context.Context, agent, path string, req wire.ExecRequest) (*Session, error) {
	where, err := c.Where(ctx, agent)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, where.Socket)
	if err != nil {
		return nil, shimError(ctx, agent, where.Socket, err)
	}
	s, err := handshake(ctx, agent, conn, path, req, c.Handshake)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// handshake asks for the upgrade on conn, bounded by timeout and ctx.
func handshake(ctx context.Context, agent string, conn net.Conn, path string, in wire.ExecRequest, timeout time.Duration) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A past deadline wakes a blocked read or write when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	body, err := json.Marshal(in)
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shim"+path, bytes.NewReader(body))
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "request %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.Upgrade)
	if err := req.Write(conn); err != nil {
		return nil, shimError(ctx, agent, "", err)
	}
	r := bufio.NewReaderSize(conn, wire.MaxFrame+5)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, shimError(ctx, agent, "", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, answerError("the shim of agent "+agent, resp)
	}
	if got := resp.Header.Get("Upgrade"); !strings.EqualFold(got, wire.Upgrade) {
		return nil, api.Errorf(api.CodeShimUnavailable, "the shim of agent %s speaks %q, not %q", agent, api.Shorten(got, 64), wire.Upgrade).
			WithHint("it may be of another version: polisctl agents stop %s && polisctl agents start %s", agent, agent)
	}
	if !stop() {
		return nil, shimError(ctx, agent, "", context.Cause(ctx))
	}
	s := &Session{agent: agent, conn: conn, in: wire.NewWriter(conn), out: r}
	if n, err := strconv.ParseUint(resp.Header.Get(wire.WindowHeader), 10, 31); err == nil && n > 0 {
		s.room = newWindow(int(n))
	}
	return s, nil
}

// Stdin returns a writer to the process's standard input. It waits while the
// process does not read; Close and the end of Run wake it with an error.
func (s *Session) Stdin() io.Writer {
	w := s.in.Stream(wire.FrameStdin)
	if s.room == nil {
		return w
	}
	return limited{w, s.room}
}

// CloseStdin ends the process's standard input.
func (s *Session) CloseStdin() error { return s.in.Write(wire.FrameStdin, nil) }

// Resize sets the size of the process's terminal, in character cells.
func (s *Session) Resize(rows, cols uint16) error {
	var p [4]byte
	binary.BigEndian.PutUint16(p[0:], rows)
	binary.BigEndian.PutUint16(p[2:], cols)
	return s.in.Write(wire.FrameResize, p[:])
}

// Signal sends the process a signal by its Linux number.
func (s *Session) Signal(sig unix.Signal) error {
	return s.in.Write(wire.FrameSignal, []byte{byte(sig)})
}

// Close drops the connection; the shim decides what that means for the
// process. It wakes a blocked Run.
func (s *Session) Close() error {
	s.room.end()
	return s.conn.Close()
}

// Run copies the process's output until it exits and returns its exit code
// (128+n after signal n). An error of stdout or stderr ends the session.
func (s *Session) Run(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer s.room.end()
	buf := make([]byte, wire.MaxFrame)
	for {
		kind, payload, err := wire.Read(s.out, buf)
		if err != nil {
			if context.Cause(ctx) != nil {
				return 0, contextError(ctx, "agent "+s.agent)
			}
			return 0, api.Errorf(api.CodeShimUnavailable, "connection to agent %s was lost before the command ended: %w", s.agent, err).
				WithHint("see: polisctl agents list")
		}
		switch kind {
		case wire.FrameStdout:
			_, err = stdout.Write(payload)
		case wire.FrameStderr:
			_, err = stderr.Write(payload)
		case wire.FrameCredit:
			if len(payload) != 4 {
				return 0, s.broken("credit frame of %d bytes", len(payload))
			}
			s.room.add(int(binary.BigEndian.Uint32(payload)))
		case wire.FrameExit:
			if len(payload) != 4 {
				return 0, s.broken("exit frame of %d bytes", len(payload))
			}
			return int(int32(binary.BigEndian.Uint32(payload))), nil
		case wire.FrameError:
			e, perr := parseError(payload)
			if perr != nil {
				return 0, s.broken("error frame that cannot be read: %v", perr)
			}
			return 0, e
		default:
			return 0, s.broken("frame of type %d from the shim", kind)
		}
		if err != nil {
			return 0, api.Errorf(api.CodeInternal, "write output of agent %s: %w", s.agent, err)
		}
	}
}

func (s *Session) broken(format string, args ...any) *api.Error {
	return api.Errorf(api.CodeShimUnavailable, "agent "+s.agent+" broke the protocol: "+format, args...)
}

// shimError returns the reason why an agent's own socket could not be used.
func shimError(ctx context.Context, agent, socket string, err error) *api.Error {
	switch {
	case context.Cause(ctx) != nil:
		return contextError(ctx, "agent "+agent)
	case errors.Is(err, fs.ErrPermission):
		return api.Errorf(api.CodeForbidden, "no permission to use %s%w", socket, quiet{err}).
			WithHint("become a member of group polis: sudo usermod -aG polis $USER, then log in again")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return api.Errorf(api.CodeShimUnavailable, "agent %s has no running sandbox%w", agent, quiet{err}).
			WithHint("polisctl agents start %s", agent)
	}
	return api.Errorf(api.CodeShimUnavailable, "agent %s cannot be reached: %w", agent, rootCause(err)).
		WithHint("see: polisctl agents list")
}
