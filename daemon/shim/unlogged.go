package shim

import (
	"sync"
	"sync/atomic"
	"time"

	"polis/daemon/api"
	"polis/netbridge"
)

// unloggedTime is how long after a refused connection the kernel is queried how many others it did not report.
const unloggedTime = 2 * time.Second

// unlogged records the refused packets that the kernel only counts, because there are too many at a time.
type unlogged struct {
	s    *Shim
	gate netbridge.Gate

	armed atomic.Bool
	mu    sync.Mutex
	seen  uint64
}

// later has the packets counted after a while. It is called with each refusal that the kernel reports: it reports some
// before it only counts others.
func (u *unlogged) later() {
	if !u.armed.CompareAndSwap(false, true) {
		return
	}
	u.s.group.Go(func() error {
		select {
		case <-time.After(unloggedTime):
		case <-u.s.ctx.Done(): // they are counted at the end
			return nil
		}
		u.armed.Store(false)
		if u.count() {
			u.later()
		}
		return nil
	})
}

// count records how many there were since the last call, and reports whether there were any.
func (u *unlogged) count() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.gate.Unlogged()
	if err != nil {
		u.s.Log.Warn("refused connections not counted", "op", "net.refuse", "err", err)
		return false
	}
	more := n > u.seen
	if more {
		u.s.missed("connection", api.CodeEgressDenied, int(n-u.seen))
	}
	u.seen = n
	return more
}
