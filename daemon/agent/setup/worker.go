package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
)

const (
	retryAfter  = 10 * time.Minute // before a failed key is tried again by itself
	maxQueued   = 8                // trees that wait for a run nobody awaits
	maxAwaited  = 64               // callers that wait
	maxFailures = 32               // keys whose failure is remembered
	maxKeys     = 256              // trees whose key is remembered
	verifyAge   = 7 * 24 * time.Hour
)

// Trees is the git side of a workspace (package worktree).
type Trees interface {
	// MountSetup mounts the base of a git tree for a run. It returns where the command sees the files
	// and where what it writes is stored. SetupOutputs ends that, and returns the names to keep.
	// UnmountSetup ends all mounts of a run.
	MountSetup(ctx context.Context, dir, tree string) (merged, upper string, err error)
	SetupOutputs(ctx context.Context, dir, tree string) ([]string, error)
	UnmountSetup(dir string) error
	// SetupsUsed returns the agents of each result.
	SetupsUsed() (map[string][]string, error)
}

// Worker makes the results of one workspace. Set the fields, then Open; Close ends it.
type Worker struct {
	Workspace string
	Store     *Store
	Trees     Trees
	// Rules is the configuration as it is now. Environment is what else the command depends on.
	Rules       func() config.SetupRules
	Environment func() []string
	// Shared reports whether new worktrees share base trees.
	Shared func() bool
	Files  Files
	// Target returns the git tree of the target branch, Moved a channel that gets a value when it may
	// have moved.
	Target func(context.Context) (string, error)
	Moved  <-chan struct{}
	// Run makes a result for a git tree. Reset removes the sandbox that a crash has left.
	Run   func(ctx context.Context, key, tree string) (Record, error)
	Reset func(context.Context) error
	// Turn holds one token: one run at a time on the machine.
	Turn    chan struct{}
	Publish func(api.Event)
	Log     *slog.Logger
	Now     func() time.Time

	cancel  context.CancelCauseFunc
	done    chan struct{}
	wake    chan struct{}
	refresh chan struct{}

	mu       sync.Mutex
	queue    []*request
	running  *request
	began    time.Time
	failures map[string]failure
	keys     map[string]string // of "rules, tree"
	keysOf   string            // the rules of keys
}

// request is one tree for which a result is wanted.
type request struct {
	tree    string
	how     How
	waiting int // callers of Await; without one it can be dropped
	done    chan struct{}
	err     error
}

// How is when the command runs for a request.
type How int

const (
	// IfMissing: if there is no result, and the last run did not fail recently.
	IfMissing How = iota
	// IfFailed: if there is no result.
	IfFailed
	// Again: always.
	Again
)

type failure struct {
	at  time.Time
	err error
	log string
}

// Open begins to make results.
func (w *Worker) Open(ctx context.Context) {
	w.done, w.wake, w.refresh = make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	w.refresh <- struct{}{}
	ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go w.work(ctx)
}

var errEnds = errors.New("the daemon stops")

// Close ends the worker and a running command.
func (w *Worker) Close() {
	w.cancel(errEnds)
	<-w.done
}

func (w *Worker) work(ctx context.Context) {
	defer close(w.done)
	defer w.abandon(ctx)
	if err := w.sweep(ctx); err != nil {
		w.Log.Warn("rest of setup commands not removed", "workspace", w.Workspace, "op", "setup", "err", err)
	}
	for {
		for r := w.next(); r != nil; r = w.next() {
			w.serve(ctx, r)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-w.refresh:
			w.wantTarget(ctx)
		case <-w.Moved:
			w.wantTarget(ctx)
		}
	}
}

// sweep removes what a crash left. It must precede every run.
func (w *Worker) sweep(ctx context.Context) error {
	return errors.Join(w.Reset(ctx), w.Store.Sweep(ctx, w.Trees.UnmountSetup))
}

// wantTarget asks for a result of the target branch.
func (w *Worker) wantTarget(ctx context.Context) {
	if !w.enabled() {
		return
	}
	tree, err := w.Target(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.Warn("target branch not read for the setup", "workspace", w.Workspace, "op", "setup", "err", err)
		}
		return
	}
	w.Want(tree)
}

func (w *Worker) enabled() bool { return *w.Rules().Run != "" && w.Shared() }

// Refresh has the target branch compared with the configuration as it is now, and returns at once.
func (w *Worker) Refresh() {
	select {
	case w.refresh <- struct{}{}:
	default:
	}
}

// Want asks for a result for a git tree, and returns at once.
func (w *Worker) Want(tree string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(tree, IfMissing, false)
}

// add queues a request, or joins one that is queued or runs. mu is held.
func (w *Worker) add(tree string, how How, await bool) *request {
	known := w.queue
	if w.running != nil && how != Again {
		known = append(slices.Clone(w.queue), w.running)
	}
	i := slices.IndexFunc(known, func(r *request) bool { return r.tree == tree })
	var r *request
	if i >= 0 {
		r = known[i]
		r.how = max(r.how, how)
	} else {
		r = &request{tree: tree, how: how, done: make(chan struct{})}
		w.queue = append(w.queue, r)
	}
	if await {
		r.waiting++
	}
	// The latest ones are for the commits that agents start from next.
	for n := len(w.queue) - maxQueued; n > 0; n-- {
		old := slices.IndexFunc(w.queue, func(r *request) bool { return r.waiting == 0 })
		if old < 0 {
			break
		}
		close(w.queue[old].done)
		w.queue = slices.Delete(w.queue, old, old+1)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return r
}

func (w *Worker) next() *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return nil
	}
	r := w.queue[0]
	w.queue = w.queue[1:]
	w.running, w.began = r, w.Now()
	return r
}

// serve makes the result of a request, if it is missing.
func (w *Worker) serve(ctx context.Context, r *request) {
	r.err = w.ensure(ctx, r)
	w.mu.Lock()
	w.running = nil
	w.mu.Unlock()
	close(r.done)
}

func (w *Worker) ensure(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !w.enabled() {
		return nil
	}
	key, err := w.Key(ctx, r.tree)
	if err != nil || key == "" {
		return err
	}
	w.mu.Lock()
	how := r.how
	failed, tried := w.failures[key]
	w.mu.Unlock()
	if has, err := w.Store.Current(key); err != nil || has != nil && how != Again {
		return err
	}
	if tried && how == IfMissing && w.Now().Sub(failed.at) < retryAfter {
		return failed.err
	}
	select {
	case w.Turn <- struct{}{}:
		defer func() { <-w.Turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.mu.Lock()
	w.began = w.Now()
	w.mu.Unlock()
	if err := w.sweep(ctx); err != nil {
		return w.failed(ctx, key, Record{}, err)
	}
	w.Log.Info("running the setup command", "workspace", w.Workspace, "op", "setup", "tree", r.tree)
	rec, err := w.Run(ctx, key, r.tree)
	if err != nil {
		return w.failed(ctx, key, rec, err)
	}
	w.mu.Lock()
	delete(w.failures, key)
	w.mu.Unlock()
	w.Publish(api.Event{Type: api.EventSetup, Message: fmt.Sprintf("the setup of workspace %s made %s in %s; new agents have them",
		w.Workspace, api.Count(int(rec.Files), "file"), (time.Duration(rec.Took) * time.Millisecond).Round(100*time.Millisecond)),
		Data: map[string]any{"workspace": w.Workspace, "id": rec.ID, "log": rec.Log, "files": rec.Files, "bytes": rec.Bytes, "dropped": rec.Dropped}})
	if _, err := w.Collect(ctx); err != nil && ctx.Err() == nil {
		w.Log.Warn("results of setup commands not removed", "workspace", w.Workspace, "op", "setup", "err", err)
	}
	return nil
}

// abandon answers the requests that are left when the worker ends.
func (w *Worker) abandon(ctx context.Context) {
	for r := w.next(); r != nil; r = w.next() {
		w.serve(ctx, r)
	}
}
