package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"polis/fusefs/fdtree"
)

// How often what an agent has on the disk is measured: every look while it
// grows or shrinks, up to rest while it does not, and never for more than one
// fiftieth of the time, however many files there are.
const (
	diskLook  = 3 * time.Second
	diskRest  = 30 * time.Second
	diskShare = 50
	// unlimited is the wait where there is no limit; one that is set ends it.
	unlimited = time.Hour
	// doubtLook is the least time to the next measure after a file was refused
	// because of what was only counted.
	doubtLook = 500 * time.Millisecond
	// maxLinked bounds the files with several names that are known of while it is
	// measured; more count once for each name.
	maxLinked = 1 << 19
)

// disk is what an agent has on the disk. What programs write to files that are
// open does not pass through the view, so it cannot be counted as it is
// written: it is measured, and when it is too much the view refuses what would
// make it more. Files are counted through the view, too, from one measure to the
// next: a program makes tens of thousands of them in a second.
type disk struct {
	limit atomic.Int64 // bytes; 0: none
	most  atomic.Int64 // files, directories and all else with an inode; 0: none
	used  atomic.Int64 // bytes on disk when last measured
	// found and made are, together, how many files there are: made is what the
	// views have counted since the shim began, found the rest as of the last measure.
	found, made atomic.Int64
	poke        chan struct{} // measure now
	doubt       chan struct{} // measure when it is time: it may have become less
	roots       []*os.File
	// failed counts the measures, one after another, that could not read everything.
	failed atomic.Int32
}

// full says that nothing may be added.
func (d *disk) full() bool {
	l := d.limit.Load()
	return l > 0 && d.used.Load() >= l
}

// crowded says that no file may be made.
func (d *disk) crowded() bool {
	l := d.most.Load()
	return l > 0 && d.files() >= l
}

// maxFailed is how many measures may fail before nothing can be added: a limit
// must not end because it cannot be told what there is.
const maxFailed = 3

// blind says that it is not known what the agent has.
func (d *disk) blind() bool { return d.failed.Load() >= maxFailed }

// files is how many there are, as far as it is known.
func (d *disk) files() int64 { return d.found.Load() + d.made.Load() }

// count is what the views call for each file that is made or removed.
func (d *disk) count(n int) { d.made.Add(int64(n)) }

// doubted has what was counted measured, soon but not more often than is good.
func (d *disk) doubted() { nudge(d.doubt) }

// setLimit counts at once if what is used is known, else with the next measure.
func (d *disk) setLimit(b bounds) {
	was := bounds{bytes: d.limit.Swap(b.bytes), files: d.most.Swap(b.files)}
	if was != b {
		nudge(d.poke)
	}
}

// nudge wakes who waits at ch, or will; nobody does at nil.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// begin sets the bounds, before the views are there.
func (d *disk) begin(b bounds) {
	d.poke, d.doubt = make(chan struct{}, 1), make(chan struct{}, 1)
	d.limit.Store(b.bytes)
	d.most.Store(b.files)
}

// openDisk begins to measure the worktree below the view and what the agent
// has beside it: what git keeps for it alone, its copies of shared files, its
// scratch directory and its home.
func (s *Shim) openDisk(tree *os.File) error {
	dirs := []string{fmt.Sprintf("/proc/self/fd/%d", tree.Fd()), s.Spec.PrivateGit, filepath.Join(s.Spec.BareRepo, "worktrees", s.Spec.Agent),
		s.Spec.HomeDir, s.Spec.Scratch}
	if s.Spec.Shared != nil {
		dirs = append(dirs, s.Spec.Shared.Dir)
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		r, err := os.Open(dir)
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
		began := time.Now()
		// Without a limit nobody wants to know.
		if s.disk.limit.Load() > 0 || s.disk.most.Load() > 0 {
			bytes, files := s.disk.used.Load(), s.disk.files()
			err := s.measureDisk(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				s.Log.Warn("measure the agent's disk", "op", "disk", "err", err)
			}
			if wait = min(2*wait, diskRest); s.disk.used.Load() != bytes || s.disk.files() != files {
				wait = diskLook
			}
		} else {
			wait = unlimited
		}
		least := diskShare * time.Since(began)
		wait = max(wait, least)
		if !s.disk.sleep(ctx, wait, least) {
			return
		}
	}
}

// sleep waits for the time of the next measure, or, if there is doubt about the
// last one, for the least time between the two; not if a limit was set.
func (d *disk) sleep(ctx context.Context, wait, least time.Duration) bool {
	began := time.Now()
	t := time.NewTimer(wait)
	defer t.Stop()
	doubt := d.doubt
	for {
		select {
		case <-t.C:
			return true
		case <-d.poke:
			return true
		case <-doubt:
			doubt = nil
			t.Reset(max(least, doubtLook) - time.Since(began))
		case <-ctx.Done():
			return false
		}
	}
}

// measureDisk notes what is used, and tells when it has come to be too much.
func (s *Shim) measureDisk(ctx context.Context) error {
	d := &s.disk
	full, crowded := d.full(), d.crowded()
	made := d.made.Load()
	bytes, files, err := d.measure(ctx)
	if ctx.Err() != nil {
		return err
	}
	if err == nil {
		d.failed.Store(0)
	} else { // what was found is the least there is
		d.failed.Add(1)
		bytes, files = max(bytes, d.used.Load()), max(files, d.found.Load()+made)
	}
	d.used.Store(bytes)
	// What was made meanwhile may have been found or not, and counts; what was
	// removed meanwhile does not count as removed from what was found.
	now := d.made.Load()
	d.found.Store(files + max(now-made, 0) - now)
	if d.full() && (!full || s.hits.due(limitDisk, time.Now())) {
		s.tellDisk()
	}
	if d.crowded() && (!crowded || s.hits.due(limitFiles, time.Now())) {
		s.tellFiles()
	}
	return err
}

// measure adds up the blocks of all files, and the files; one with several names
// counts once. The tree is the agent's, which changes it meanwhile: what is gone
// when its turn comes is not counted. With an error, what could be read is.
func (d *disk) measure(ctx context.Context) (bytes, files int64, err error) {
	type inode struct{ dev, ino uint64 }
	seen := map[inode]bool{}
	for _, root := range d.roots {
		e := fdtree.Walk(ctx, int(root.Fd()), func(e *fdtree.Entry) error {
			if !e.IsDir() && e.Stat.Nlink > 1 {
				id := inode{e.Stat.Dev, e.Stat.Ino}
				if seen[id] {
					return nil
				}
				if len(seen) < maxLinked {
					seen[id] = true
				}
			}
			bytes, files = bytes+e.Stat.Blocks*512, files+1
			return nil
		})
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		err = errors.Join(err, e)
	}
	return bytes, files, err
}
