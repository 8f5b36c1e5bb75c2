package shim

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// hijack answers 101 and returns the raw connection.
func hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	hj, ok := w.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("the connection cannot be upgraded")
	}
	conn, rw, err := hj.Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("upgrade: %w", err)
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.Upgrade + "\r\n" +
		wire.WindowHeader + ": " + strconv.Itoa(wire.StdinWindow) + "\r\n\r\n"
	if _, err := conn.Write([]byte(head)); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("upgrade: %w", err), conn.Close())
	}
	return conn, rw, nil
}

func sendExit(fw *wire.Writer, code int) error {
	return fw.Write(wire.FrameExit, binary.BigEndian.AppendUint32(nil, uint32(int32(code))))
}

func sendError(fw *wire.Writer, err error) error {
	b, merr := json.Marshal(api.AsError(err))
	if merr != nil {
		return merr
	}
	return fw.Write(wire.FrameError, b)
}

// meant refuses a request for another agent, whose name this one got.
func (s *Shim) meant(r *http.Request) error {
	if of := r.Header.Get(wire.SessionHeader); of != "" && of != s.Spec.Session {
		return api.Errorf(api.CodeAgentNotFound, "the agent was removed; %s is another one now", s.Spec.Agent)
	}
	return nil
}

// exec runs one command in the sandbox, joined to the client's connection. The command is killed
// when the connection ends.
func (s *Shim) exec(w http.ResponseWriter, r *http.Request) error {
	var req wire.ExecRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if len(req.Command) == 0 || req.Command[0] == "" {
		return api.Errorf(api.CodeBadRequest, "command is empty: give the program to run")
	}
	if err := errors.Join(s.meant(r), s.unfrozen()); err != nil {
		return err
	}
	p := sandbox.Process{Args: req.Command, Env: s.env(req.Env, req.TTY), Cwd: s.Spec.ProjectPath, TTY: req.TTY, Rows: req.Rows, Cols: req.Cols}
	var stdinW, outR, errR *os.File
	var child []*os.File
	closeAll := func(fs ...*os.File) {
		for _, f := range fs {
			if f != nil {
				_ = f.Close() //nolint:errcheck // pipe ends hold no data of ours
			}
		}
	}
	if !req.TTY {
		for _, e := range []struct{ r, w **os.File }{{&p.Stdin, &stdinW}, {&outR, &p.Stdout}, {&errR, &p.Stderr}} {
			pr, pw, err := os.Pipe()
			if err != nil {
				closeAll(append(child, stdinW, outR, errR)...)
				return api.Errorf(api.CodeInternal, "make pipe: %w", err)
			}
			*e.r, *e.w = pr, pw
		}
		child = []*os.File{p.Stdin, p.Stdout, p.Stderr}
		if !req.Stdin {
			closeAll(stdinW)
			stdinW = nil
		}
	}
	own := r.Header.Get(wire.OwnHeader) != ""
	proc, err := s.startGuest(p, own)
	closeAll(child...)
	if err != nil {
		closeAll(stdinW, outR, errR)
		return startError(req.Command[0], err)
	}
	s.sessions.Add(1)
	defer s.sessions.Add(-1)
	conn, rw, err := hijack(w)
	if err != nil {
		return errors.Join(err, proc.Signal(syscall.SIGKILL), waitProc(proc))
	}
	defer conn.Close()
	fw := wire.NewWriter(conn)
	var input io.WriteCloser
	if req.TTY {
		outR, input = proc.Console(), nopCloser{proc.Console()}
	} else if stdinW != nil {
		input = stdinW
	}
	var copies sync.WaitGroup
	pump := func(f *os.File, t wire.FrameType) {
		if f == nil {
			return
		}
		copies.Go(func() {
			// Both errors are ordinary ends: the client disconnected (detected below), or the last
			// writer closed (EOF, or EIO on a terminal).
			_, _ = io.Copy(fw.Stream(t), f) //nolint:errcheck // see above
		})
	}
	pump(outR, wire.FrameStdout)
	pump(errR, wire.FrameStderr)
	client := make(chan error, 1)
	go func() { client <- serveFrames(rw, fw, input, process{proc, proc.Resize}, !req.TTY) }()
	exited := make(chan int, 1)
	go func() {
		code, err := proc.Wait()
		if err != nil {
			s.Log.Warn("exit status of exec not read", "err", err)
		}
		exited <- code
	}()
	var code int
	select {
	case code = <-exited:
	case <-client:
		// The client has disconnected: send SIGHUP, then SIGKILL.
		_ = proc.Signal(syscall.SIGHUP) //nolint:errcheck // it may have ended by itself
		select {
		case code = <-exited:
		case <-time.After(2 * time.Second):
			_ = proc.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended by itself
			code = <-exited
		}
	case <-s.stopping:
		_ = proc.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended by itself
		code = <-exited
	}
	// Output that was written before the exit is delivered. A background child that keeps the pipe
	// open does not keep the connection open.
	done := make(chan struct{})
	go func() { copies.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(300 * time.Millisecond):
	}
	s.tellUnasked(fw, proc.Pid(), req.TTY)
	err = sendExit(fw, code)
	closeAll(stdinW, outR, errR)
	if cerr := conn.Close(); err == nil && cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		err = cerr
	}
	<-done
	if err != nil {
		s.Log.Debug("exec client disconnected", "err", err)
	}
	return nil
}

func waitProc(p *sandbox.Proc) error {
	_, err := p.Wait()
	return err
}

// startError translates a failed start of a program in the sandbox.
func startError(program string, err error) error {
	return api.Errorf(api.CodeCommandNotFound, "start %q in the sandbox: %w", api.Shorten(program, 200), err).
		WithHint("the sandbox sees the host's /usr, /etc and /opt, the project and its own home directory")
}

// attach joins a client to the agent's main command.
func (s *Shim) attach(w http.ResponseWriter, r *http.Request) error {
	var req wire.ExecRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	m := s.current()
	if m == nil {
		return api.Errorf(api.CodeBadState, "agent %s runs no command", s.Spec.Agent).
			WithHint("polisctl agents start --program %s, or polisctl agents shell %s", s.Spec.Agent, s.Spec.Agent)
	}
	rows, cols := req.Rows, req.Cols
	if !m.tty || !req.TTY {
		rows, cols = 0, 0
	}
	sub, ok := m.subscribe(rows, cols)
	if !ok {
		return api.Errorf(api.CodeBadState, "the command of agent %s has just ended", s.Spec.Agent)
	}
	defer m.unsubscribe(sub)
	conn, rw, err := hijack(w)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.sessions.Add(1)
	defer s.sessions.Add(-1)
	if rows > 0 && cols > 0 {
		if err := m.resize(rows, cols); err != nil {
			s.Log.Debug("terminal not resized", "err", err)
		}
	}
	fw := wire.NewWriter(conn)
	client := make(chan error, 1)
	go func() { client <- serveFrames(rw, fw, m.input, process{m.proc, m.resize}, false) }()
	// The connection is no longer HTTP. A write error means that the client has disconnected, so
	// it cannot be reported.
	for {
		select {
		case p, ok := <-sub.ch:
			if !ok {
				if sub.slow {
					_ = sendError(fw, api.Errorf(api.CodeUnavailable, "this terminal reads slower than the output is written").WithHint("attach again, or use polisctl agents watch"))
					return nil
				}
				<-m.done
				_ = sendExit(fw, m.code)
				return nil
			}
			if fw.Write(wire.FrameStdout, p) != nil {
				return nil
			}
		case <-client:
			return nil
		case <-s.stopping:
			return nil
		}
	}
}
