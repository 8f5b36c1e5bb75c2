package shim

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"polis/daemon/api/wire"
)

// stdin queues a client's input for a process that may not read it for a long time, so that the
// frames behind it (signals, the client's end) are processed at once. The window that was granted
// to the client bounds the queue.
type stdin struct {
	to    io.WriteCloser
	fw    *wire.Writer
	close bool

	mu     sync.Mutex
	cond   *sync.Cond
	queue  [][]byte
	queued int
	eof    bool
	ended  bool
}

var errWindow = errors.New("the client sent more input than its window")

func newStdin(to io.WriteCloser, fw *wire.Writer, closeOnEOF bool) *stdin {
	s := &stdin{to: to, fw: fw, close: closeOnEOF}
	s.cond = sync.NewCond(&s.mu)
	if to != nil {
		// The goroutine ends with the queue: at end(), or when a write fails because the process
		// has exited, which closes the pipe or terminal.
		go s.pump()
	}
	return s
}

// put queues a frame's payload; an empty one is the end of input.
func (s *stdin) put(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.to == nil:
		return nil
	case len(p) == 0:
		s.eof = true
	case s.queued+len(p) > 2*wire.StdinWindow:
		return errWindow
	default:
		s.queue, s.queued = append(s.queue, append([]byte(nil), p...)), s.queued+len(p)
	}
	s.cond.Signal()
	return nil
}

func (s *stdin) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cond.Signal()
}

func (s *stdin) next() (p []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.eof && !s.ended {
		s.cond.Wait()
	}
	if s.ended || len(s.queue) == 0 {
		return nil, false
	}
	p = s.queue[0]
	s.queue, s.queued = s.queue[1:], s.queued-len(p)
	return p, true
}

func (s *stdin) pump() {
	gone := false
	for {
		p, ok := s.next()
		if !ok {
			break
		}
		// If the process no longer reads, the rest is discarded and credited, so that the client
		// is not blocked.
		if !gone {
			_, err := s.to.Write(p)
			gone = err != nil
		}
		if s.fw.Write(wire.FrameCredit, binary.BigEndian.AppendUint32(nil, uint32(len(p)))) != nil {
			return
		}
	}
	s.mu.Lock()
	eof := s.eof && !s.ended
	s.mu.Unlock()
	if eof && s.close {
		_ = s.to.Close() //nolint:errcheck // a pipe whose reader may be gone
	}
}
