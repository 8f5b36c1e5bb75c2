package fusefs

import (
	"sync"
	"time"
)

// endWatch finds out which interrupted calls have a caller that is ending. The kernel reports only
// the first signal of a request, so their callers are polled: by one goroutine for all calls of a
// view, which runs while there are any, and for a small part of the time.
type endWatch struct {
	mu    sync.Mutex
	calls map[*callCtx]chan struct{}
	runs  bool
}

// interruptShare is the part of its time, 1/interruptShare, that the poller uses at most.
const interruptShare = 20

// watchEnd returns a channel that is closed when the caller of an interrupted call is ending, or the
// kernel has ended the connection. forget must be called afterwards.
func (fs *FS) watchEnd(c *callCtx) <-chan struct{} {
	w := &fs.ends
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*callCtx]chan struct{}{}
	}
	ended := make(chan struct{})
	w.calls[c] = ended
	if !w.runs {
		w.runs = true
		fs.watchers.Go(fs.pollEnds)
	}
	return ended
}

func (w *endWatch) forget(c *callCtx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, c)
}

// pollEnds ends with the last call.
func (fs *FS) pollEnds() {
	w := &fs.ends
	var calls []*callCtx
	for {
		w.mu.Lock()
		calls = calls[:0]
		for c := range w.calls {
			calls = append(calls, c)
		}
		w.runs = len(calls) > 0
		w.mu.Unlock()
		if len(calls) == 0 {
			return
		}
		start := time.Now()
		alive := fs.server.Alive()
		for _, c := range calls {
			if alive && !ending(c.pid) {
				continue
			}
			w.mu.Lock()
			if ended, ok := w.calls[c]; ok {
				delete(w.calls, c)
				close(ended)
			}
			w.mu.Unlock()
		}
		t := time.NewTimer(max(interruptPoll, interruptShare*time.Since(start)))
		select {
		case <-t.C:
		case <-fs.dying:
			t.Stop()
			return
		}
	}
}
