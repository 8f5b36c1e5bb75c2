package conflictwatch

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/git/branches"
	"polis/internal/pause"
)

// work scans whenever there is a reason to, and pauses in between.
func (r *Watcher) work(ctx context.Context) {
	defer close(r.done)
	moved := r.Branches.Moved()
	failed := false
	for {
		var later <-chan time.Time // nil: it waits for an event
		if failed {
			later = time.After(retryPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-moved:
		case <-later:
		}
		select {
		case r.Turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		failed = !r.once(ctx)
		<-r.Turn
		if !pause.Worker(ctx, began, maxRest) {
			return
		}
	}
}

// once scans and publishes the result; false if the scan was incomplete.
func (r *Watcher) once(ctx context.Context) bool {
	r.mu.Lock()
	over, trees := r.next, r.trees
	r.next, r.trees = make(chan struct{}), false
	old := r.last
	r.mu.Unlock()
	defer close(over)

	lctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	tips, err := r.tips(lctx, trees)
	var p *snapshot
	if err == nil {
		p, err = r.scan(lctx, tips, trees)
	}
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

// tips returns where the branches are: now for a caller of Report, else as they were read last.
func (r *Watcher) tips(ctx context.Context, now bool) (branches.Tips, error) {
	if now {
		return r.Branches.Now(ctx)
	}
	return r.Branches.Last(ctx)
}
