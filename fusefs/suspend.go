package fusefs

import (
	"context"
	"syscall"
)

// suspension is a time in which no change begins.
type suspension struct{ over chan struct{} }

// Suspend holds back every change that the guard allows from now on, until Resume: the caller is not
// answered and nothing is changed. A change whose I/O has begun is completed. Reads are answered.
// Without a suspension a change pays one atomic load. It may be called again.
func (fs *FS) Suspend() { fs.suspended.CompareAndSwap(nil, &suspension{over: make(chan struct{})}) }

// Resume lets the changes continue that Suspend holds back.
func (fs *FS) Resume() {
	if h := fs.suspended.Swap(nil); h != nil {
		close(h.over)
	}
}

// awaitResume waits for the end of a suspension.
func (fs *FS) awaitResume(ctx context.Context) syscall.Errno {
	for h := fs.suspended.Load(); h != nil; h = fs.suspended.Load() {
		e := Wait(ctx, func() {
			select {
			case <-h.over:
			case <-ctx.Done():
			}
		})
		if e != 0 {
			return e
		}
		if ctx.Err() != nil {
			return syscall.EINTR
		}
	}
	return 0
}
