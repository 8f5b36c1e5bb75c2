package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/store/layout"
)

const (
	// mountTick is how often the watch of mounts looks whether it is to end, and mountSettle the pause before it reads
	// mounts that have changed: programs that unmount, such as umount -a, unmount several.
	mountTick   = time.Second
	mountSettle = 200 * time.Millisecond
	// mountTries is how often a view is to be mounted, a tick apart, before an event reports that it is not.
	mountTries = 5
	// mountsAtOnce bounds the shims that mount views at the same time.
	mountsAtOnce = 8
	// keepAgain is the wait before changes are followed again after an error.
	keepAgain = 5 * time.Second
)

// viewKeeper has views mounted again that another program unmounted on the host while agents use them: there, programs of
// the owner would reach the files without rules and locks.
type viewKeeper struct {
	s *Shims
	// said are agents whose view is not mounted, which was published.
	said map[string]bool
	// below counts, for agents whose files below the view are not mounted, how often in turn they were not.
	below map[string]int
}

// keepViews runs until ctx ends.
func (s *Shims) keepViews(ctx context.Context) {
	k := &viewKeeper{s: s, said: map[string]bool{}, below: map[string]int{}}
	for ctx.Err() == nil {
		if err := k.follow(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("changes of mounts are not followed", "op", "views.keep", "err", err)
		}
		sleep(ctx, keepAgain)
	}
}

// follow checks the views now and after each change of the mounts: poll(2) of mountinfo (proc_pid_mountinfo(5)).
func (k *viewKeeper) follow(ctx context.Context) error {
	// Not an os.File: the poller of Go's runtime would take the changes (they count once for each open file).
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open mountinfo", err)
	}
	defer unix.Close(fd)
	changed := true
	for ctx.Err() == nil {
		if changed {
			sleep(ctx, mountSettle)
			if err := k.look(ctx); err != nil {
				return err
			}
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		n, err := unix.Poll(p, int(mountTick.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll mountinfo: %w", err)
		}
		changed = n > 0 || k.unsure()
	}
	return nil
}

// look has the views mounted again that are not.
func (k *viewKeeper) look(ctx context.Context) error {
	missing, err := k.missing()
	if err != nil || len(missing) == 0 {
		return err
	}
	for try := 0; ; try++ {
		failed := k.mountAll(ctx, missing)
		if len(failed) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if try == mountTries {
			for name, err := range failed {
				k.open(name, missing[name], err)
			}
			return nil
		}
		sleep(ctx, mountTick) // an agent can be starting or ending
		if missing, err = k.missing(); err != nil {
			return err
		}
	}
}

// mountAll returns the agents whose views are not mounted, with the reason.
func (k *viewKeeper) mountAll(ctx context.Context, missing map[string]string) map[string]error {
	failed := map[string]error{}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(mountsAtOnce) // the shim of one may not answer
	for name := range missing {
		g.Go(func() error {
			paths, err := k.s.Agents().Remount(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed[name] = err
			case len(paths) == 0:
				failed[name] = errNotRemounted
			default:
				k.mounted(name, paths)
			}
			return nil
		})
	}
	_ = g.Wait() //nolint:errcheck // no function returns an error
	return failed
}

// missing returns the worktrees of the agents of which a view is not mounted.
func (k *viewKeeper) missing() (map[string]string, error) {
	expected := k.s.Agents().Mounted()
	maps.DeleteFunc(k.said, func(name string, _ bool) bool { _, is := expected[name]; return !is })
	if len(expected) == 0 {
		clear(k.below)
		return nil, nil
	}
	mounted := map[string]bool{}
	_, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		mounted[m.Mountpoint] = true
		return true, false
	})
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	k.lookBelow(expected, mounted)
	out := map[string]string{}
	for name, p := range expected {
		if mounted[p.Worktree] && (!p.Git || mounted[layout.ShimGit(k.s.Run.Agent(name))]) {
			delete(k.said, name)
			continue
		}
		out[name] = p.Worktree
	}
	return out, nil
}

// mounted records that the views of an agent are mounted again.
func (k *viewKeeper) mounted(name string, paths []string) {
	delete(k.said, name)
	k.publish(api.Event{Agent: name, Message: "another program unmounted the view of agent " + name + " on the host; it is mounted again at " + strings.Join(paths, " and "), Data: map[string]any{"paths": paths}})
}

var errNotRemounted = errors.New("the overlay above it cannot be mounted twice")

// open publishes that programs of the host reach the files of an agent without its view.
func (k *viewKeeper) open(name, at string, err error) {
	if k.said[name] {
		return
	}
	k.said[name] = true
	k.publish(api.Event{Agent: name, Code: api.CodeShimUnavailable, Data: map[string]any{"error": err.Error()},
		Message: fmt.Sprintf("another program unmounted the view of agent %s on the host, and it is not mounted again: programs there reach the files at %s without rules and locks until the agent is started again: %v", name, at, err)})
}

func (k *viewKeeper) publish(e api.Event) {
	e.Type = api.EventView
	k.s.Log.Warn("view of an agent was unmounted by another program", "op", "views.keep", "agent", e.Agent, "outcome", e.Message)
	k.s.Publish(e)
}
