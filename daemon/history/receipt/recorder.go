package receipt

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"polis/daemon/api"
)

const (
	// batch is how long entries are collected before they are written and made durable together.
	batch = 25 * time.Millisecond
	// retry is the interval of the attempts to write a log that could not be written, and of the
	// entries about dropped ones.
	retry = 2 * time.Second
	// headsEvery is how often the heads of agents' logs are recorded, if they have changed.
	headsEvery = time.Minute
)

// Recorder writes events to the logs of their workspaces. Assign the fields, then Open. Put may be
// called before Open.
type Recorder struct {
	// Workspaces returns the workspace of each agent that exists.
	Workspaces func() map[string]string
	// Stores returns the logs by their workspace.
	Stores func() map[string]*Store
	// Faulty is called when a log cannot be written, and with nil when it can again.
	Faulty func(workspace string, err error)
	Log    *slog.Logger
	Now    func() time.Time
	// Began is when polisd began to record, before any agent can claim a lease again.
	Began time.Time

	once   sync.Once
	in     intake
	settle chan chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	gone   bool // an agent was removed; of the writing goroutine

	mu      sync.Mutex
	known   map[string]string // agents that have been seen, with their workspace
	shares  map[string]*share
	pending map[target][]Entry
	dropped map[target]int
	told    map[target]time.Time // when the last entry about dropped ones was written
	faults  map[target]error
}

// target is a log of a workspace.
type target struct{ workspace, log string }

func (r *Recorder) init() {
	r.once.Do(func() {
		r.in.queues, r.in.wake, r.settle, r.done = map[string]*queue{}, make(chan struct{}, 1), make(chan chan struct{}), make(chan struct{})
		r.known, r.shares, r.pending = map[string]string{}, map[string]*share{}, map[target][]Entry{}
		r.dropped, r.told, r.faults = map[target]int{}, map[target]time.Time{}, map[target]error{}
	})
}

// Put records an event, if it is a receipt. It never waits, and may be called with any lock held.
func (r *Recorder) Put(e api.Event) {
	r.init()
	if Recorded(e) {
		r.in.put(e)
	}
}

// Open begins to write.
func (r *Recorder) Open(ctx context.Context) {
	r.init()
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
}

// Close writes what there is, and ends.
func (r *Recorder) Close() {
	if r.cancel == nil {
		return
	}
	r.cancel()
	<-r.done
	r.collect()
	r.flush(true)
}

// Missed notes that entries of an agent are missing, which its log says as soon as it can be written.
func (r *Recorder) Missed(agent string) {
	r.init()
	if ws := r.Workspaces()[agent]; ws != "" {
		r.mu.Lock()
		r.dropped[target{ws, agent}]++
		r.mu.Unlock()
	}
	select {
	case r.in.wake <- struct{}{}:
	default:
	}
}

// Settle returns when everything that was put before it is durable or cannot be written, or ctx ends.
func (r *Recorder) Settle(ctx context.Context) {
	r.init()
	done := make(chan struct{})
	select {
	case r.settle <- done:
	case <-ctx.Done():
		return
	case <-r.done:
		return
	}
	select {
	case <-done:
	case <-r.done:
	case <-ctx.Done():
	}
}

// Fault returns why receipts cannot be written now; nil if they can.
func (r *Recorder) Fault() error {
	r.init()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.faults {
		return err
	}
	return nil
}

func (r *Recorder) run(ctx context.Context) {
	heads := time.NewTicker(headsEvery)
	defer heads.Stop()
	var settled chan struct{}
	for {
		r.collect()
		left := r.flush(false)
		if r.gone && !left {
			r.rest()
		}
		if settled != nil {
			close(settled)
			settled = nil
		}
		var again <-chan time.Time
		if left {
			again = time.After(retry)
		}
		select {
		case <-r.in.wake:
			select {
			case <-time.After(batch):
			case settled = <-r.settle:
			case <-ctx.Done():
				return
			}
		case settled = <-r.settle:
		case <-again:
		case <-heads.C:
			r.upkeep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// rest closes the logs of agents that were removed.
func (r *Recorder) rest() {
	r.gone = false
	for ws, s := range r.Stores() {
		if err := s.Rest(); err != nil {
			r.Log.Warn("receipts of removed agents not closed", "workspace", ws, "err", err)
		}
	}
}

// upkeep records the heads of the agents' logs, and removes old logs.
func (r *Recorder) upkeep(ctx context.Context) {
	r.rest()
	for ws, s := range r.Stores() {
		if err := s.heads(); err != nil {
			r.Log.Warn("heads of receipts not recorded", "workspace", ws, "err", err)
			continue
		}
		if err := s.Sweep(ctx); err != nil {
			r.Log.Warn("old receipts not removed", "workspace", ws, "err", err)
		}
	}
}

// collect makes entries of the new events.
func (r *Recorder) collect() {
	queues := r.in.take()
	if len(queues) == 0 {
		return
	}
	agents := r.Workspaces()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, ws := range agents {
		r.known[name] = ws
	}
	now := r.Now()
	for agent, q := range queues {
		for _, x := range q.events {
			r.add(agent, x, now)
		}
		if ws := r.known[agent]; q.dropped > 0 && ws != "" {
			r.dropped[target{ws, agent}] += q.dropped
		}
		if _, lives := agents[agent]; !lives {
			delete(r.known, agent)
			delete(r.shares, agent)
			r.gone = r.gone || agent != ""
		}
	}
}
