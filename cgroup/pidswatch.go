package cgroup

import (
	"context"
	"fmt"
	"time"
)

// ForksRefused counts the forks of the group that failed for its process limit since it was made;
// on v1 also those that failed for a limit above it. A missing group, or a host without the
// controller, returns 0.
func (g *Group) ForksRefused() (uint64, error) {
	hier, ok := g.host.controller(pids)
	if !ok {
		return 0, nil
	}
	n, err := readKey(g.dir(hier), "pids.events", "max")
	if err != nil && !gone(err) {
		return 0, fmt.Errorf("refused forks of cgroup %s: %w", g.Path, err)
	}
	return n, nil
}

// pollPids is how often the count of refused forks is read: v1 does not notify of them, and v2
// notifies inotify instances, of which a user has too few for every shim.
const pollPids = time.Second

// WatchPids reports the count of [Group.ForksRefused] when it has grown, until ctx ends; then the
// channel is closed. The receiver must drain it.
//
// It reads the count on every receive from active, to which the caller sends while processes of
// the group run; if active is nil, once a second.
func (g *Group) WatchPids(ctx context.Context, active <-chan struct{}) (<-chan uint64, error) {
	if _, ok := g.host.controller(pids); !ok {
		return nil, fmt.Errorf("watch processes of cgroup %s: %w", g.Path, &ControllerError{Controller: pids, Path: g.Path})
	}
	last, err := g.ForksRefused()
	if err != nil {
		return nil, err
	}
	out := make(chan uint64)
	go g.watchPids(ctx, last, active, out)
	return out, nil
}

func (g *Group) watchPids(ctx context.Context, last uint64, active <-chan struct{}, out chan<- uint64) {
	defer close(out)
	var every <-chan time.Time
	if active == nil {
		tick := time.NewTicker(pollPids)
		defer tick.Stop()
		every = tick.C
	}
	for {
		select {
		case <-active:
		case <-every:
		case <-ctx.Done():
			return
		}
		now, err := g.ForksRefused()
		if err != nil || now <= last {
			continue
		}
		last = now
		select {
		case out <- now:
		case <-ctx.Done():
			return
		}
	}
}
