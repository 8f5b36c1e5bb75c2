package branches

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/pause"
)

const (
	settle   = 50 * time.Millisecond // one git command moves several refs
	maxRest  = 10 * time.Second
	again    = 10 * time.Second // after a reading, or an update of the tracked set, that failed
	poll     = 5 * time.Second  // between readings if the kernel reports nothing
	readTime = time.Minute
)

// Agent is an agent and the branch it works on, short.
type Agent struct{ Name, Branch string }

// Tips are the branches of a workspace at one moment. They are not changed afterwards.
type Tips struct {
	Target string            // short name of the target branch
	Onto   string            // its commit
	Agents []Agent           // by name
	Of     map[string]string // commits, by agent; a branch that does not exist has none
}

func (t Tips) same(o Tips) bool {
	return t.Target == o.Target && t.Onto == o.Onto && slices.Equal(t.Agents, o.Agents) && maps.Equal(t.Of, o.Of)
}

// Follower follows the branches of one workspace. Set the fields, then Open; Close ends it.
type Follower struct {
	Repo   git.Repo
	Target func(context.Context) (string, error) // short name of the target branch
	Log    *slog.Logger

	cancel  context.CancelFunc
	done    chan struct{}
	wake    chan struct{}
	reading chan struct{} // holds one token: who reads

	mu     sync.Mutex
	agents []Agent
	known  bool // of tips and err
	tips   Tips
	err    error
	moved  []chan struct{}
}

// Open starts to follow.
func (f *Follower) Open(ctx context.Context) {
	f.wake, f.done, f.reading = make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	notify(f.wake)
	go f.work(ctx)
}

// Close ends the follower and waits for its git. Callers of Now have ended.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
}

// Moved returns a channel of the caller's own that gets a value when other tips were read, or
// when they cannot be read any more. Many moves can be one value.
func (f *Follower) Moved() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{}, 1)
	f.moved = append(f.moved, c)
	if f.known {
		notify(c)
	}
	return c
}

// SetAgents sets whose branches are followed besides the target.
func (f *Follower) SetAgents(as []Agent) {
	as = slices.Clone(as)
	slices.SortFunc(as, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	f.mu.Lock()
	same := slices.Equal(as, f.agents)
	f.agents = as
	f.mu.Unlock()
	if !same {
		notify(f.wake)
	}
}

// Last returns what was read last; before the first reading it reads.
func (f *Follower) Last(ctx context.Context) (Tips, error) {
	f.mu.Lock()
	known, tips, err := f.known, f.tips, f.err
	f.mu.Unlock()
	if !known {
		return f.Now(ctx)
	}
	return tips, err
}

// Now reads where the branches are now.
func (f *Follower) Now(ctx context.Context) (Tips, error) {
	select {
	case f.reading <- struct{}{}:
	case <-ctx.Done():
		return Tips{}, context.Cause(ctx)
	}
	defer func() { <-f.reading }()
	f.mu.Lock()
	agents := f.agents
	f.mu.Unlock()
	tips, err := f.read(ctx, agents)
	if err != nil && ctx.Err() != nil {
		return Tips{}, err // that says nothing of the branches
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	news := !f.known || (err != nil) != (f.err != nil) || err == nil && !tips.same(f.tips)
	f.known, f.tips, f.err = true, tips, err
	if news {
		for _, c := range f.moved {
			notify(c)
		}
	}
	return tips, err
}

func (f *Follower) read(ctx context.Context, agents []Agent) (Tips, error) {
	t := Tips{Agents: agents, Of: map[string]string{}}
	var err error
	if t.Target, err = f.Target(ctx); err != nil {
		return Tips{}, err
	}
	names := []string{git.Branch(t.Target)}
	for _, a := range agents {
		names = append(names, git.Branch(a.Branch))
	}
	refs, err := f.Repo.Refs(ctx, names...)
	if err != nil {
		return Tips{}, fmt.Errorf("read the branches: %w", err)
	}
	if t.Onto = refs[names[0]]; t.Onto == "" {
		return Tips{}, api.Errorf(api.CodeRepoCorrupt, "there is no branch %s to merge to", t.Target)
	}
	for i, a := range agents {
		if tip := refs[names[i+1]]; tip != "" {
			t.Of[a.Name] = tip
		}
	}
	return t, nil
}

// work reads whenever there is a reason to, and pauses in between.
func (f *Follower) work(ctx context.Context) {
	defer close(f.done)
	watch, err := OpenWatcher(f.Repo.Dir)
	var moved <-chan struct{}
	if err != nil {
		f.Log.Warn("branches are read every few seconds: they cannot be watched", "op", "branches", "path", f.Repo.Dir, "err", err)
	} else {
		moved = watch.Moved()
		defer func() {
			if err := watch.Close(); err != nil {
				f.Log.Warn("watch of branches not ended", "op", "branches", "err", err)
			}
		}()
	}
	failed := false
	for {
		var later <-chan time.Time // nil: it waits for an event
		switch {
		case failed:
			later = time.After(again)
		case watch == nil || watch.Incomplete():
			later = time.After(poll)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-moved:
		case <-later:
		}
		if !pause.For(ctx, settle) {
			return
		}
		began := time.Now()
		lctx, cancel := context.WithTimeout(ctx, readTime)
		_, err := f.Now(lctx)
		cancel()
		if failed = err != nil && ctx.Err() == nil; failed {
			f.Log.Warn("branches not read", "op", "branches", "path", f.Repo.Dir, "err", err)
		}
		if !pause.Worker(ctx, began, maxRest) {
			return
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
