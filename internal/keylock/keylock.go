package keylock

import (
	"context"
	"sync"
)

// Set is a set of locks. The zero value has none that is locked. It is safe for concurrent use.
type Set struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed at the unlock
}

// Lock waits for the lock of a name, and returns the function that unlocks it. If ctx ends first, it
// returns the cause.
func (s *Set) Lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		wait, taken := s.busy[name]
		if !taken {
			done := make(chan struct{})
			if s.busy == nil {
				s.busy = map[string]chan struct{}{}
			}
			s.busy[name] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, name)
				s.mu.Unlock()
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
