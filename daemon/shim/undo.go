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

// onClose registers the function that undoes the previous step.
func (s *Shim) onClose(name string, f func(context.Context) error) {
	s.undo = append(s.undo, undoStep{name, f})
}

// onEnd is onClose for steps that are undone after all those of onClose.
func (s *Shim) onEnd(name string, f func(context.Context) error) {
	s.undo = slices.Insert(s.undo, s.ends, undoStep{name, f})
	s.ends++
}

// unwind calls all registered functions, the last first. A failed one does not stop the others.
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
