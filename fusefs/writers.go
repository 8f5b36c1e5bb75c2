package fusefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrWriters reports that an object can still be changed by a process that opened
// it before.
var ErrWriters = errors.New("fusefs: the object is still open for writing")

// settleWait is how long NoWriters waits for the release of files that were
// closed just now: the kernel reports it after close has returned.
const settleWait = 200 * time.Millisecond

// NoWriters returns nil when no open file and no mapping, through a view or
// not, can write to the object behind a read-only descriptor such as the one
// Guard.Publish is given. Tickets do not show that: with passthrough a shared
// mapping holds the backing file, not the view's, so a ticket is done while the
// mapping lives on. It takes a read lease (fcntl(2),
// F_SETLEASE), which is refused while a writer exists, and keeps none.
func NoWriters(ctx context.Context, content int) error {
	var end <-chan time.Time // there is mostly no writer to wait for
	for {
		_, err := unix.FcntlInt(uintptr(content), unix.F_SETLEASE, unix.F_RDLCK)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(content), unix.F_SETLEASE, unix.F_UNLCK)
			if err != nil {
				return fmt.Errorf("fusefs: give a lease back: %w", err)
			}
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("fusefs: look for writers: %w", err)
		}
		if end == nil {
			t := time.NewTimer(settleWait)
			defer t.Stop()
			end = t.C
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return ErrWriters
		case <-time.After(time.Millisecond):
		}
	}
}
