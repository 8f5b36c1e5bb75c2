package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// FrameType is the first byte of a frame.
type FrameType byte

// The frames of an attached process. Client to shim: Stdin (empty payload =
// end of input), Resize (rows, cols as two big-endian uint16), Signal (one
// byte). Shim to client: Stdout, Stderr, Exit (big-endian int32, last frame),
// Error (JSON api.Error, last frame), Credit (big-endian uint32: so many bytes
// of input were taken; see StdinWindow).
const (
	FrameStdin  FrameType = 1
	FrameStdout FrameType = 2
	FrameStderr FrameType = 3
	FrameResize FrameType = 4
	FrameSignal FrameType = 5
	FrameExit   FrameType = 6
	FrameError  FrameType = 7
	FrameCredit FrameType = 8
)

// MaxFrame bounds the payload of a frame, in bytes.
const MaxFrame = 64 << 10

// WindowHeader is, in the 101 answer, how many bytes of input may be in transit without credit.
// So a process that does not read its input never delays signals and resizes behind it. Without
// the header there is no limit and no credit.
const WindowHeader = "Polis-Stdin-Window"

// StdinWindow is the window this build's shim offers, in bytes.
const StdinWindow = 256 << 10

// Writer writes whole frames; it may be used from several goroutines.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter makes a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends one frame, or several if p is larger than MaxFrame.
func (w *Writer) Write(t FrameType, p []byte) error {
	for {
		n := min(len(p), MaxFrame)
		buf := make([]byte, 5+n)
		buf[0] = byte(t)
		binary.BigEndian.PutUint32(buf[1:], uint32(n))
		copy(buf[5:], p[:n])
		w.mu.Lock()
		_, err := w.w.Write(buf)
		w.mu.Unlock()
		if err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}

// Stream returns an io.Writer that sends everything as frames of type t.
func (w *Writer) Stream(t FrameType) io.Writer { return stream{w, t} }

type stream struct {
	w *Writer
	t FrameType
}

func (s stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.w.Write(s.t, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read reads one frame. The payload is valid until the next call if buf is
// reused; buf may be nil. An oversized or unknown frame is an error.
func Read(r io.Reader, buf []byte) (FrameType, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	t, n := FrameType(head[0]), binary.BigEndian.Uint32(head[1:])
	if t < FrameStdin || t > FrameCredit {
		return 0, nil, fmt.Errorf("frame type %d is unknown", t)
	}
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes is over the limit of %d", n, MaxFrame)
	}
	if cap(buf) < int(n) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return 0, nil, fmt.Errorf("frame cut short: %w", err)
	}
	return t, buf, nil
}
