package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"polis/cgroup/sandbox"
	"polis/daemon/api/wire"
)

// process is what the frames of a client act on.
type process struct {
	*sandbox.Proc
	resize func(rows, cols uint16) error
}

// serveFrames connects a client's frames to a process. Frames in: input, resize and signals.
// Frames out: credit for input that was accepted. It returns when the client disconnects or
// violates the protocol.
func serveFrames(r io.Reader, fw *wire.Writer, input io.WriteCloser, proc process, closeOnEOF bool) error {
	in := newStdin(input, fw, closeOnEOF)
	defer in.end()
	buf := make([]byte, wire.MaxFrame)
	for {
		t, p, err := wire.Read(r, buf)
		if err != nil {
			return err
		}
		switch t {
		case wire.FrameStdin:
			if err := in.put(p); err != nil {
				return err
			}
		case wire.FrameResize:
			if len(p) == 4 {
				if err := proc.resize(uint16(p[0])<<8|uint16(p[1]), uint16(p[2])<<8|uint16(p[3])); err != nil && !errors.Is(err, os.ErrClosed) {
					return fmt.Errorf("resize: %w", err)
				}
			}
		case wire.FrameSignal:
			if len(p) == 1 && allowedSignal(syscall.Signal(p[0])) {
				if err := proc.Signal(syscall.Signal(p[0])); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("signal: %w", err)
				}
			}
		default:
			return fmt.Errorf("frame type %d is not for the server", t)
		}
	}
}

func allowedSignal(s syscall.Signal) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH:
		return true
	}
	return false
}
