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

// undoTime bounds one step of unwind.
const undoTime = 15 * time.Second

// undoList is what undoes the steps of a start. One goroutine uses it at a time.
type undoList struct {
	steps []undoStep
	ends  int // number of entries that onEnd registered, which come first
}

// onClose registers the function that undoes the previous step.
func (u *undoList) onClose(name string, f func(context.Context) error) {
	u.steps = append(u.steps, undoStep{name, f})
}

// onEnd is onClose for steps that are undone after all those of onClose.
func (u *undoList) onEnd(name string, f func(context.Context) error) {
	u.steps = slices.Insert(u.steps, u.ends, undoStep{name, f})
	u.ends++
}

// unwind calls all registered functions, the last first. A failed one does not stop the others.
func (u *undoList) unwind(ctx context.Context) error {
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		if err := u.steps[i].f(sctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", u.steps[i].name, err))
		}
		cancel()
	}
	u.steps, u.ends = nil, 0
	return errors.Join(errs...)
}

// beside runs a step in a goroutine of its own. The caller must call the returned function, which
// waits for its end.
func beside(step func() error) (wait func() error) {
	end := make(chan error, 1)
	go func() { end <- step() }()
	return func() error { return <-end }
}
