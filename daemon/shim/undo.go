package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

type undoStep struct {
	name string
	f    func(context.Context) error
}

// onClose registers the undo of what was just done.
func (s *Shim) onClose(name string, f func(context.Context) error) {
	s.undo = append(s.undo, undoStep{name, f})
}

// onEnd is onClose for what is undone after everything that was registered with onClose.
func (s *Shim) onEnd(name string, f func(context.Context) error) {
	s.undo = slices.Insert(s.undo, s.ends, undoStep{name, f})
	s.ends++
}

// unwind undoes everything, last first. A failed step does not stop the others.
func (s *Shim) unwind(ctx context.Context) error {
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		if err := s.undo[i].f(sctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", s.undo[i].name, err))
		}
		cancel()
	}
	s.undo, s.ends = nil, 0
	return errors.Join(errs...)
}
