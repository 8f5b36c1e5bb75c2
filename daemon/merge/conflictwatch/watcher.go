package conflictwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git/branches"
	"polis/daemon/git/worktree"
	"polis/daemon/merge"
	"polis/fusefs/fdtree"
)

const (
	maxRest       = 30 * time.Second
	scanTime      = 2 * time.Minute  // for one scan
	retryPause    = 30 * time.Second // after a failed scan
	reportTimeout = 4 * time.Second  // of a caller of Report
)

// Agent is an agent and the branch it works on, short.
type Agent = branches.Agent

// Watcher watches one workspace. Set the fields, then Open; Close ends it.
type Watcher struct {
	Workspace string
	Git       *worktree.Workspace
	Branches  *branches.Follower // open from before Open until after Close
	// Scratch is a directory of the daemon's own for temporary objects; Open creates it and
	// removes what a crash left there.
	Scratch string
	Leases  func() []api.Lock // of files, of this workspace
	Publish func(api.Event)
	// Charge has the git commands of a context charged to an agent; nil charges none.
	Charge func(ctx context.Context, agent string) context.Context
	// Turn holds one token, that of the watcher that scans. All watchers of a daemon share it.
	Turn chan struct{}
	Log  *slog.Logger
	Now  func() time.Time

	cancel context.CancelCauseFunc
	done   chan struct{}
	wake   chan struct{}

	mu    sync.Mutex
	trees bool          // a caller wants to know about worktrees
	next  chan struct{} // closed at the end of the next scan to begin
	last  *snapshot

	// Used by the worker only.
	spans  map[string]span
	dirty  map[string]dirty
	tried  map[merge.Pair]merge.Tried
	before map[string]api.ConflictMerge
}

// Open starts the worker.
func (r *Watcher) Open(ctx context.Context) error {
	if err := errors.Join(fdtree.RemoveAll(ctx, r.Scratch), os.Mkdir(r.Scratch, 0o711)); err != nil {
		return fmt.Errorf("make the directory of conflict checks: %w", err)
	}
	r.wake, r.next, r.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	r.spans, r.dirty, r.before = map[string]span{}, map[string]dirty{}, map[string]api.ConflictMerge{}
	r.last = &snapshot{}
	ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go r.work(ctx)
	return nil
}

// Close ends the watcher and waits for its git.
func (r *Watcher) Close() {
	r.cancel(errors.New("the daemon stops"))
	<-r.done
}

func (r *Watcher) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Report scans and returns the result. If that takes longer than a few seconds, it returns the
// result of the last scan, and Pending.
func (r *Watcher) Report(ctx context.Context) api.Conflicts {
	r.mu.Lock()
	over := r.next
	r.trees = true
	r.mu.Unlock()
	r.notify()
	pending := false
	wait := time.NewTimer(reportTimeout)
	defer wait.Stop()
	select {
	case <-over:
	case <-wait.C:
		pending = true
	case <-ctx.Done():
		pending = true
	case <-r.done:
		pending = true
	}
	r.mu.Lock()
	p := r.last
	r.mu.Unlock()
	c := p.report(r.Leases())
	c.Workspace, c.Pending = r.Workspace, pending
	return c
}

// Count counts the conflicts that the last scan found.
func (r *Watcher) Count() api.ConflictCount {
	r.mu.Lock()
	p := r.last
	r.mu.Unlock()
	n := api.ConflictCount{Paths: p.shared}
	for _, m := range p.merges {
		if m.Error == "" {
			n.Merges++
		}
	}
	return n
}
