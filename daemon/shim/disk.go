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

	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
)

// How often an agent's disk use is measured: every look while it changes, up to rest while it does
// not. Measuring takes at most one fiftieth of the time, regardless of the number of files.
const (
	diskLook  = 3 * time.Second
	diskRest  = 30 * time.Second
	diskShare = 50
	// unlimited is the pause if there is no limit; setting one ends it.
	unlimited = time.Hour
	// doubtLook is the least time to the next measurement after a file was refused because of a
	// count that may be too high.
	doubtLook = 500 * time.Millisecond
	// maxLinked bounds the files with several names that a measurement tracks; more count once
	// for each name.
	maxLinked = 1 << 19
)

// disk is an agent's disk use. Writes to open files do not pass through the view, so bytes are
// not counted as they are written: they are measured, and above the limit the view refuses what
// would add to them. Files are counted through the view, too, between measurements: a program
// makes tens of thousands of them in a second.
type disk struct {
	limit atomic.Int64 // bytes; 0: none
	most  atomic.Int64 // files, directories and all else with an inode; 0: none
	used  atomic.Int64 // bytes on disk at the last measurement
	// found and made are, together, the number of files: made is what the views have counted
	// since the shim began, found the rest as of the last measurement.
	found, made atomic.Int64
	poke        chan struct{} // measure now
	doubt       chan struct{} // measure at the next opportunity: the use may have dropped
	roots       []*os.File
	// failed counts consecutive measurements that could not read everything.
	failed atomic.Int32
}

// full reports that no bytes may be added.
func (d *disk) full() bool {
	l := d.limit.Load()
	return l > 0 && d.used.Load() >= l
}

// crowded reports that no file may be made.
func (d *disk) crowded() bool {
	l := d.most.Load()
	return l > 0 && d.files() >= l
}

// maxFailed is how many measurements may fail before nothing can be added: an unreadable tree
// must not disable a limit.
const maxFailed = 3

// blind reports that the disk use is unknown.
func (d *disk) blind() bool { return d.failed.Load() >= maxFailed }

// files is the best estimate of their number.
func (d *disk) files() int64 { return d.found.Load() + d.made.Load() }

// count is called by the views for each file that is made or removed.
func (d *disk) count(n int) { d.made.Add(int64(n)) }

// doubted requests a measurement, soon but at a bounded rate.
func (d *disk) doubted() { wakeOne(d.doubt) }

// setLimit takes effect at once if the use is known, else with the next measurement.
func (d *disk) setLimit(b bounds) {
	was := bounds{bytes: d.limit.Swap(b.bytes), files: d.most.Swap(b.files)}
	if was != b {
		wakeOne(d.poke)
	}
}

// wakeOne wakes the goroutine that waits at ch, now or later; a nil ch has none.
func wakeOne(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// begin sets the bounds, before the views exist.
func (d *disk) begin(b bounds) {
	d.poke, d.doubt = make(chan struct{}, 1), make(chan struct{}, 1)
	d.limit.Store(b.bytes)
	d.most.Store(b.files)
}

// openDisk begins to measure the worktree below the view and the agent's other directories: what
// git keeps for it alone, its copies of shared files, its scratch directory and its home.
func (s *Shim) openDisk(tree *os.File) error {
	dirs := []string{"", s.Spec.PrivateGit, filepath.Join(s.Spec.BareRepo, "worktrees", s.Spec.Agent), s.Spec.HomeDir, s.Spec.Scratch}
	if s.Spec.Shared != nil {
		dirs = append(dirs, s.Spec.Shared.Dir)
	}
	for i, dir := range dirs {
		if dir == "" && i > 0 {
			continue
		}
		r, err := s.openMeasured(tree, dir)
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

// openMeasured opens a directory of the agent's for reading, or the tree for "".
func (s *Shim) openMeasured(tree *os.File, dir string) (*os.File, error) {
	if dir != "" {
		var err error
		if tree, err = s.openBelow(dir); err != nil {
			return nil, err
		}
		defer tree.Close()
	}
	fd, err := openAt(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: tree.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), tree.Name()), nil
}

func (s *Shim) watchDisk(ctx context.Context) {
	wait := diskLook
	for {
		began := time.Now()
		// Without a limit no measurement is needed.
		if s.disk.limit.Load() > 0 || s.disk.most.Load() > 0 {
			bytes, files := s.disk.used.Load(), s.disk.files()
			err := s.measureDisk(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				s.Log.Warn("disk use not measured", "op", "disk", "err", err)
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

// sleep waits for the time of the next measurement, or, if the last one is in doubt, for the
// least time between two; not if a limit was set.
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

// measureDisk records the use, and emits an event when a limit is reached.
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
	} else { // what was found is a lower bound
		d.failed.Add(1)
		bytes, files = max(bytes, d.used.Load()), max(files, d.found.Load()+made)
	}
	d.used.Store(bytes)
	// Files made meanwhile may have been found or not, and count; files removed meanwhile are not
	// subtracted from what was found.
	now := d.made.Load()
	d.found.Store(files + max(now-made, 0) - now)
	if d.full() && (!full || s.hits.due(limitDisk, time.Now())) {
		s.reportDisk()
	}
	if d.crowded() && (!crowded || s.hits.due(limitFiles, time.Now())) {
		s.reportFiles()
	}
	return err
}

// measure adds up the blocks of all files, and the files; one with several names counts once. The
// agent changes the tree meanwhile: what disappears before its turn is not counted. With an
// error, the result is what could be read.
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
