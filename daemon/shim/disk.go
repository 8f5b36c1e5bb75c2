package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/fusefs"
)

// How often what an agent has on the disk is measured: every look while it
// grows or shrinks, up to rest while it does not, and never for more than one
// fiftieth of the time, however many files there are.
const (
	diskLook  = 3 * time.Second
	diskRest  = 30 * time.Second
	diskShare = 50
	// maxLinked bounds the files with several names that are known of while it is
	// measured; more count once for each name.
	maxLinked = 1 << 19
)

// disk is what an agent has on the disk. What programs write to files that are
// open does not pass through the view, so it cannot be counted as it is
// written: it is measured, and when it is too much the view refuses what would
// make it more.
type disk struct {
	limit atomic.Int64 // bytes; 0: none
	used  atomic.Int64 // bytes on disk when last measured
	poke  chan struct{}
	roots []*os.Root
}

// full says that nothing may be added.
func (d *disk) full() bool {
	l := d.limit.Load()
	return l > 0 && d.used.Load() >= l
}

// setLimit counts at once if what is used is known, else with the next measure.
func (d *disk) setLimit(bytes int64) {
	if d.limit.Swap(bytes) != bytes {
		select {
		case d.poke <- struct{}{}:
		default:
		}
	}
}

// quota is the view's question before an operation that takes space.
func (s *Shim) quota(fusefs.Op) bool { return !s.disk.full() }

// openDisk begins to measure the worktree below the view and what the agent
// has beside it: its copies of shared files, its scratch directory and its home.
func (s *Shim) openDisk(tree *os.File) error {
	s.disk.poke = make(chan struct{}, 1)
	s.disk.limit.Store(s.Spec.DiskBytes)
	dirs := []string{fmt.Sprintf("/proc/self/fd/%d", tree.Fd()), s.Spec.HomeDir, s.Spec.Scratch}
	if s.Spec.Shared != nil {
		dirs = append(dirs, s.Spec.Shared.Dir)
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		r, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has none
		}
		if err != nil {
			return fmt.Errorf("disk of the agent: %w", err)
		}
		s.onClose("disk", func(context.Context) error { return r.Close() })
		s.disk.roots = append(s.disk.roots, r)
	}
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watchDisk(ctx)
	}()
	s.onClose("measure of the disk", func(context.Context) error { stop(); <-done; return nil })
	return nil
}

func (s *Shim) watchDisk(ctx context.Context) {
	wait := diskLook
	for {
		// Without a limit nobody wants to know.
		if s.disk.limit.Load() > 0 {
			began := time.Now()
			before := s.disk.used.Load()
			used, err := s.disk.measure(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.Log.Warn("measure the agent's disk", "op", "disk", "err", err)
			default:
				s.measured(used)
			}
			if wait = min(2*wait, diskRest); used != before {
				wait = diskLook
			}
			wait = max(wait, diskShare*time.Since(began))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.disk.poke:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// measured notes what is used, and tells when it has come to be too much.
func (s *Shim) measured(used int64) {
	was := s.disk.full()
	s.disk.used.Store(used)
	limit := s.disk.limit.Load()
	if !s.disk.full() || was && !s.hits.due("disk", time.Now()) {
		return
	}
	if !s.hits.hit("disk", 0, time.Now()) {
		return
	}
	s.events.Publish(api.Event{Type: api.EventDisk, Agent: s.Spec.Agent, Code: api.CodeQuota,
		Message: fmt.Sprintf("agent %s has %d MB on the disk, and may have %d MB: nothing can be added", s.Spec.Agent, used>>20, limit>>20),
		Data:    map[string]any{"used_bytes": used, "limit_bytes": limit}})
}

// measure adds up the blocks of all files; one with several names counts once.
// The tree is the agent's, which changes it meanwhile: nothing leads out of
// an os.Root, and what is gone when its turn comes is not counted.
func (d *disk) measure(ctx context.Context) (int64, error) {
	var total int64
	type inode struct{ dev, ino uint64 }
	seen := map[inode]bool{}
	for _, root := range d.roots {
		err := fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
					return nil
				}
				return err
			}
			info, err := e.Info()
			if err != nil {
				return nil //nolint:nilerr // it has gone
			}
			st, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return nil
			}
			if !e.IsDir() && st.Nlink > 1 {
				id := inode{st.Dev, st.Ino}
				if seen[id] {
					return nil
				}
				if len(seen) < maxLinked {
					seen[id] = true
				}
			}
			total += st.Blocks * 512
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}
