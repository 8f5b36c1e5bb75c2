package dial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// maxOutput bounds what Run keeps of each stream, in bytes.
const maxOutput = 1 << 20

// Result is the result of a command that has ended.
type Result struct {
	Code           int    // 128+n after signal n
	Stdout, Stderr string // at most 1 MiB of each
}

// Run runs a command of polisd's in the sandbox to its end, with empty input: its calls count as the agent's. If ctx ends first, Run kills the
// command.
func (s *Shim) Run(ctx context.Context, r wire.ExecRequest) (Result, error) {
	r.TTY, r.Stdin = false, false
	fail := func(err error) (Result, error) {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Result{}, api.Errorf(api.CodeShimUnavailable, "run a command in the sandbox: %w", err)
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	// A past deadline wakes every goroutine that waits on the connection.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // closed already
	defer stop()
	body, err := json.Marshal(r)
	if err != nil {
		return fail(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shim/v1/exec", bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.Upgrade)
	req.Header.Set(wire.OwnHeader, "1")
	if r.Session != "" {
		req.Header.Set(wire.SessionHeader, r.Session)
	}
	if err := req.Write(conn); err != nil {
		return fail(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return fail(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		e := &api.Error{}
		if err := json.NewDecoder(resp.Body).Decode(e); err != nil || e.Code == "" {
			return fail(fmt.Errorf("the shim answered %s", resp.Status))
		}
		return Result{}, e
	}
	return output(in, fail)
}

// output reads frames until the one with the exit code.
func output(in *bufio.Reader, fail func(error) (Result, error)) (Result, error) {
	var out, errs bytes.Buffer
	buf := make([]byte, wire.MaxFrame)
	for {
		kind, p, err := wire.Read(in, buf)
		if err != nil {
			return fail(err)
		}
		switch kind {
		case wire.FrameStdout:
			out.Write(p[:min(len(p), maxOutput-out.Len())])
		case wire.FrameStderr:
			errs.Write(p[:min(len(p), maxOutput-errs.Len())])
		case wire.FrameCredit:
		case wire.FrameExit:
			if len(p) != 4 {
				return fail(fmt.Errorf("exit frame of %d bytes", len(p)))
			}
			return Result{Code: int(int32(binary.BigEndian.Uint32(p))), Stdout: out.String(), Stderr: errs.String()}, nil
		case wire.FrameError:
			e := &api.Error{}
			if err := json.Unmarshal(p, e); err != nil {
				return fail(err)
			}
			return Result{}, e
		default:
			return fail(fmt.Errorf("frame of type %d", kind))
		}
	}
}
