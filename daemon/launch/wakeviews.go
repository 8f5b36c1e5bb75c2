package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"polis/daemon/host/launcher"
	"polis/daemon/store/layout"
	"polis/fusefs/fusectl"
)

const (
	// viewTime is how long a view may take to answer when polisd starts.
	viewTime = 20 * time.Second
	// wakeSlots bounds the agents whose views are woken at the same time.
	wakeSlots = 8
)

// WakeViews makes sure that every view that an earlier polisd has left answers, or that its connection ends: what
// the daemon does first with a worktree would otherwise wait for ever. A shim that a signal stopped is continued.
// The connections of one that has ended, or was killed and cannot end, are aborted, and so are those of a view that
// does not answer.
func (s *Shims) WakeViews(ctx context.Context, roots []layout.Workspace) {
	all, err := mountinfo.GetMounts(nil)
	if err != nil {
		s.Log.Error("views not found", "err", err)
		return
	}
	views := map[string][]*mountinfo.Info{}
	for _, m := range all {
		if name := s.viewOf(m, roots); name != "" {
			views[name] = append(views[name], m)
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, wakeSlots)
	for name, mounts := range views {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.wake(ctx, name, mounts); err != nil {
				s.Log.Error("view does not answer and is ended", "agent", name, "err", err)
			}
		})
	}
	wg.Wait()
}

// wake returns an error if it had to end the views.
func (s *Shims) wake(ctx context.Context, name string, mounts []*mountinfo.Info) error {
	var conns viewConns
	for _, m := range mounts {
		c, err := fusectl.OpenMounted(m)
		if err != nil {
			return errors.Join(err, conns.close())
		}
		conns = append(conns, c)
	}
	defer conns.close() //nolint:errcheck // they were only read
	proc, err := s.launcher.Process(ctx, name, s.Run.Agent(name))
	if errors.Is(err, launcher.ErrNoProcess) {
		return conns.abort() // without a server they have ended, unless another process has the descriptor
	}
	if err != nil {
		return err // what comes next wakes its views
	}
	switch dying, err := proc.Dying(); {
	case err != nil:
		return err
	case dying:
		return errors.Join(errors.New("its shim was killed and has not ended"), conns.abort())
	}
	if stopped, err := proc.Stopped(); err == nil && stopped {
		s.Log.Warn("shim stopped by a signal; continued", "agent", name)
		err = proc.Continue()
		if err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if err := answers(ctx, m.Mountpoint); err != nil {
			return errors.Join(err, conns.abort(), proc.Kill())
		}
	}
	return nil
}

// answers asks a view for the attributes of its root directory, and returns an error if there is no answer. The thread
// that asks stays until the connection ends.
func answers(ctx context.Context, view string) error {
	done := make(chan error, 1)
	go func() {
		var st unix.Statx_t
		done <- unix.Statx(unix.AT_FDCWD, view, unix.AT_NO_AUTOMOUNT|unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_FORCE_SYNC, unix.STATX_TYPE, &st)
	}()
	t := time.NewTimer(viewTime)
	defer t.Stop()
	select {
	case <-done: // an error is an answer
	case <-ctx.Done(): // the start is given up: nothing is known of the view
	case <-t.C:
		return fmt.Errorf("%s does not answer in %s", view, viewTime)
	}
	return nil
}
