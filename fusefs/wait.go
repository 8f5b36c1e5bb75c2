package fusefs

import (
	"context"
	"syscall"

	"polis/fusefs/conn"
)

// Restart is the errno of Wait that a Guard returns as it is: the operation is called again from
// the start, where it may wait. No caller ever gets it.
const Restart = syscall.Errno(513) // ERESTARTNOINTR of the kernel

// waitKey is the key of the callCtx in a context derived from it.
type waitKey struct{}

// Wait is how a Guard calls what may take long: what waits for another agent or for a person. ctx
// is the context that Read or Write was called with, or one derived from it. Wait returns
//
//   - 0 when f has returned;
//   - Restart if f was not called: the guard returns this errno at once, without a record of a
//     refusal, and is called again for the same operation on a goroutine that keeps no reader;
//   - EAGAIN if f was not called as too many operations of the view wait already
//     (conn.Options.Deferred): the guard refuses the operation.
//
// f must obey ctx, which ends when the caller is ending or the view is unmounted. The guard holds
// no lock meanwhile, and checks again afterwards what may have changed. A context that belongs to
// no operation calls f directly.
func Wait(ctx context.Context, f func()) syscall.Errno {
	c, ok := ctx.Value(waitKey{}).(*callCtx)
	if !ok {
		f()
		return 0
	}
	switch c.req.Wait(f) {
	case conn.WaitAgain:
		return Restart
	case conn.WaitFull:
		return syscall.EAGAIN
	}
	return 0
}

// Deferred returns the number of operations of this view that wait in Wait, or have waited and are
// not answered yet.
func (fs *FS) Deferred() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server == nil {
		return 0
	}
	return fs.server.Deferred()
}
