package shim

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/layout"
)

// beatEvery is the interval between two heartbeats. Each takes about 0.1 ms of processor time.
const beatEvery = 3 * time.Second

// beat writes a heartbeat for polisd while the shim works: a request to every shim at this
// interval would cost more. A shim that holds the locks of requests for ever writes no heartbeat.
func (s *Shim) beat() error {
	f, err := os.OpenFile(layout.Heartbeat(s.Spec.RunDir), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	s.onClose("heartbeat", func(context.Context) error {
		return errors.Join(f.Close(), removeIfThere(layout.Heartbeat(s.Spec.RunDir)))
	})
	note := func() error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return os.NewSyscallError("clock_gettime", err)
		}
		_, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(now.Nano())), 0)
		return err
	}
	if err := note(); err != nil {
		return err
	}
	s.group.Go(func() error {
		t := time.NewTicker(beatEvery)
		defer t.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return nil
			case <-t.C:
			}
			s.mu.Lock()
			s.mu.Unlock() //nolint:staticcheck // only to have held it
			s.views.mu.Lock()
			s.views.mu.Unlock() //nolint:staticcheck // as above
			s.events.Last()
			s.followShared()
			if err := note(); err != nil && !errors.Is(err, os.ErrClosed) {
				s.Log.Warn("heartbeat not written", "err", err)
			}
		}
	})
	return nil
}
