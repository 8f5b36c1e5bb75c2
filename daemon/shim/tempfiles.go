package shim

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/host/private"
	"polis/fusefs/ignore"
	"polis/fusefs/policy"
	"polis/fusefs/tempfile"
	"polis/fusefs/view"
)

// maxKeptNamed bounds the paths in one line of the log.
const maxKeptNamed = 20

// openTempFiles lets the agent make temporary files, if it may. Without git the tree is not the agent's own, and others
// would read them. What an agent has renamed aside is read by the rules of its former name also if it can make none.
func (s *Shim) openTempFiles(vc *view.Config, ig *ignore.Matcher, root *os.File) error {
	sp := s.Spec
	if !sp.Git {
		return nil
	}
	t, err := tempfile.Open(int(root.Fd()), s.tempRecordDir)
	if err != nil {
		return err
	}
	s.onClose("temporary files", func(context.Context) error { return t.Close() })
	vc.Temps, vc.NoTemps, vc.Tracked = t, !sp.TempFiles || sp.ReadOnly, ig.Others
	return nil
}

// tempRecordDir opens the directory of the record of temporary files, and makes it if it was removed.
func (s *Shim) tempRecordDir() (int, error) {
	if err := private.Dir(s.logDir()); err != nil {
		return -1, err
	}
	dir, err := openDir(s.logDir())
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	return unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 3)
}

// sweepTempFiles has the temporary files that programs have left removed when the agent has stopped: the view is
// unmounted then.
func (s *Shim) sweepTempFiles(v *views, t *tempfile.Table) {
	if t == nil || !s.Spec.TempFiles || s.Spec.ReadOnly {
		return
	}
	s.onClose("leftover temporary files", func(ctx context.Context) error {
		if v.tree == nil { // it was never mounted
			return nil
		}
		ended := make(chan struct{})
		s.group.Go(func() error {
			v.tree.Wait()
			close(ended)
			return nil
		})
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("temporary files stay: the view has not ended: %w", context.Cause(ctx))
		}
		w := tempfile.Sweeper{Table: t, Writable: func(path string) bool {
			return v.guard.Policy().DecideThrough(path, false).Write == policy.Allow
		}}
		if s.Spec.Lower != "" {
			w.Covers = s.inLower
		}
		kept, removed := w.Sweep()
		if removed > 0 {
			s.Log.Info("leftover temporary files were removed", "count", removed)
		}
		if len(kept) > 0 {
			s.Log.Warn("temporary files are kept: they may contain the only copy of work", "count", len(kept), "paths", kept[:min(len(kept), maxKeptNamed)])
		}
		return nil
	})
}

// inLower reports whether a path may be in a layer below the agent's own files.
func (s *Shim) inLower(path string) bool {
	for _, name := range s.lowerDirs() {
		dir, err := openDir(name)
		if err != nil {
			return true
		}
		fd, err := openAt(dir, path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		dir.Close()
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return true
		}
	}
	return false
}
