package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// fakeShim speaks the frame protocol and runs real commands, without sandbox.
// Attach is a cat on a terminal that lives as long as the test.
type fakeShim struct {
	t   testing.TB
	dir string // the command finds it in $FAKE
	wg  sync.WaitGroup
}

func newShim(t testing.TB, dir string) http.Handler {
	s := &fakeShim{t: t, dir: dir}
	t.Cleanup(s.wg.Wait)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/exec", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, nil) })
	mux.HandleFunc("POST /v1/attach", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, []string{"sh", "-c", `trap 'echo got INT' INT; echo attached; while read l; do echo "main: $l"; test "$l" = bye && exit 9; done`})
	})
	return mux
}

func (s *fakeShim) serve(w http.ResponseWriter, r *http.Request, command []string) {
	s.wg.Add(1)
	defer s.wg.Done()
	var req wire.ExecRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, api.Errorf(api.CodeBadRequest, "body: %w", err))
		return
	}
	if command == nil {
		command = req.Command
	}
	if r.Header.Get("Upgrade") != wire.Upgrade {
		refuse(w, api.Errorf(api.CodeBadRequest, "no upgrade"))
		return
	}
	path, err := exec.LookPath(command[0])
	if err != nil && command[0] != "break-protocol" {
		refuse(w, api.Errorf(api.CodeCommandNotFound, "command %q is not in the sandbox", command[0]))
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.t.Errorf("hijack: %v", err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.Upgrade+"\r\n\r\n")
	out := wire.NewWriter(conn)
	if command[0] == "break-protocol" {
		return
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Env = append(append(os.Environ(), "FAKE="+s.dir), req.Env...)
	if req.TTY {
		s.terminal(cmd, req, conn, rw, out)
	} else {
		s.pipes(cmd, conn, rw, out)
	}
}

func (s *fakeShim) terminal(cmd *exec.Cmd, req wire.ExecRequest, conn io.Closer, in io.Reader, out *wire.Writer) {
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: req.Rows, Cols: req.Cols})
	if err != nil {
		s.t.Errorf("start on terminal: %v", err)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(out.Stream(wire.FrameStdout), tty) })
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		frames(in, cmd, tty, func() { _, _ = tty.Write([]byte{4}) }, func(p []byte) {
			_ = pty.Setsize(tty, &pty.Winsize{Rows: binary.BigEndian.Uint16(p), Cols: binary.BigEndian.Uint16(p[2:])})
		})
		killUnless(ended, cmd) // the client is gone
	}()
	_ = cmd.Wait()
	close(ended)
	wg.Wait()
	exited(cmd, out)
	_ = conn.Close()
	<-gone
	_ = tty.Close()
}

func (s *fakeShim) pipes(cmd *exec.Cmd, conn io.Closer, in io.Reader, out *wire.Writer) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Errorf("pipe: %v", err)
		return
	}
	cmd.Stdout, cmd.Stderr = out.Stream(wire.FrameStdout), out.Stream(wire.FrameStderr)
	if err := cmd.Start(); err != nil {
		s.t.Errorf("start: %v", err)
		return
	}
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		frames(in, cmd, stdin, func() { _ = stdin.Close() }, nil)
		killUnless(ended, cmd) // the client is gone
	}()
	_ = cmd.Wait()
	close(ended)
	exited(cmd, out)
	_ = conn.Close()
	<-gone
}

func killUnless(ended <-chan struct{}, cmd *exec.Cmd) {
	select {
	case <-ended:
	default:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// frames obeys the client's frames until the connection ends.
func frames(r io.Reader, cmd *exec.Cmd, stdin io.Writer, eof func(), resize func([]byte)) {
	buf := make([]byte, wire.MaxFrame)
	for {
		kind, p, err := wire.Read(r, buf)
		if err != nil {
			return
		}
		switch {
		case kind == wire.FrameStdin && len(p) == 0:
			eof()
		case kind == wire.FrameStdin:
			_, _ = stdin.Write(p)
		case kind == wire.FrameResize && resize != nil:
			resize(p)
		case kind == wire.FrameSignal:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.Signal(p[0]))
		}
	}
}

func exited(cmd *exec.Cmd, out *wire.Writer) {
	code := cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	var p [4]byte
	binary.BigEndian.PutUint32(p[:], uint32(int32(code)))
	if err := out.Write(wire.FrameExit, p[:]); err != nil && !errors.Is(err, syscall.EPIPE) {
		return // the client is gone, which some tests want
	}
}
