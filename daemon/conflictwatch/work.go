package conflictwatch

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/refwatch"
)

// work scans whenever there is a reason to, and pauses in between.
func (r *Watcher) work(ctx context.Context) {
	defer close(r.done)
	watch, err := refwatch.Open(r.Git.Bare().Dir)
	var moved <-chan struct{}
	if err != nil {
		r.Log.Warn("branches are polled every few seconds: they cannot be watched", "op", "conflictwatch", "workspace", r.Workspace, "err", err)
	} else {
		moved = watch.Moved()
		defer func() {
			if err := watch.Close(); err != nil {
				r.Log.Warn("watch of branches not ended", "op", "conflictwatch", "err", err)
			}
		}()
	}
	blind := func() bool { return watch == nil || watch.Blind() }
	failed := false
	for {
		var later <-chan time.Time // nil: it waits for an event
		switch {
		case failed:
			later = time.After(retryPause)
		case blind() && r.any():
			later = time.After(pollPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-moved:
		case <-later:
		}
		if !sleep(ctx, settle) {
			return
		}
		select {
		case r.Turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		failed = !r.once(ctx)
		<-r.Turn
		if !sleep(ctx, min(rest*time.Since(began), maxRest)) {
			return
		}
	}
}

func (r *Watcher) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.agents) > 0
}

// once scans and publishes the result; false if the scan was incomplete.
func (r *Watcher) once(ctx context.Context) bool {
	r.mu.Lock()
	over, agents, trees := r.next, r.agents, r.trees
	r.next, r.trees = make(chan struct{}), false
	old := r.last
	r.mu.Unlock()
	defer close(over)

	lctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	p, err := r.scan(lctx, agents, trees)
	if err != nil {
		if ctx.Err() != nil {
			return true // the daemon stops
		}
		r.Log.Warn("scan for conflicts", "op", "conflictwatch", "workspace", r.Workspace, "err", err)
		stale := *old
		stale.errs = []string{api.Shorten(err.Error(), 500)}
		p = &stale
	}
	r.mu.Lock()
	r.last = p
	r.mu.Unlock()
	return err == nil && !p.partial
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
