package client

import (
	"io"
	"net"
	"sync"

	"polis/daemon/api/wire"
)

// window counts how much input may still be sent (wire.WindowHeader). A nil
// window has no limit.
type window struct {
	mu    sync.Mutex
	cond  *sync.Cond
	left  int
	size  int
	ended bool
}

func newWindow(n int) *window {
	w := &window{left: n, size: n}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// take waits for room and returns how much of n may go now; 0 when the
// session has ended.
func (w *window) take(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.left == 0 && !w.ended {
		w.cond.Wait()
	}
	if w.ended {
		return 0
	}
	n = min(n, w.left, wire.MaxFrame)
	w.left -= n
	return n
}

func (w *window) add(n int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = min(w.left+n, w.size)
	w.cond.Broadcast()
}

func (w *window) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.cond.Broadcast()
}

type limited struct {
	w io.Writer
	r *window
}

// Write is part of io.Writer.
func (l limited) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := l.r.take(len(p) - done)
		if n == 0 {
			return done, net.ErrClosed
		}
		if _, err := l.w.Write(p[done : done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}
