package race

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
)

// undoTime bounds ending and removing one racer, mergeTime merging the winner.
const (
	undoTime  = 2 * time.Minute
	mergeTime = time.Hour
)

// Agents is what a race needs of agents. Every call can be repeated. An agent that got the name of a
// racer later is not that racer: nothing is done to it.
type Agents interface {
	// Start adds the agent of a racer, if it does not exist, gives it the task, if it does not have
	// it, and returns the ID of the task.
	Start(ctx context.Context, race api.Race, r api.Racer) (task string, err error)
	// Await fills in how the racer's task ended, when that is final.
	Await(ctx context.Context, r *api.Racer) error
	// Check runs the race's check in the racer's sandbox.
	Check(ctx context.Context, race api.Race, r api.Racer) (code int, output string, err error)
	// Conflicts are those of the workspace now.
	Conflicts(ctx context.Context, workspace string) (api.Conflicts, error)
	// Cancel ends the racer's task.
	Cancel(ctx context.Context, r api.Racer) error
	// SaveAndRemove saves the agent's work in the trash, removes the agent and returns the trash ref.
	SaveAndRemove(ctx context.Context, race api.Race, agent string) (trash string, err error)
	// Merge merges the winner. Keep makes it an ordinary agent, which may be removed if it is merged.
	Merge(ctx context.Context, race api.Race, agent string) (commit string, err error)
	Keep(ctx context.Context, race api.Race, agent string) error
}

// Causes for the end of a race's context.
var (
	errFirst     = errors.New("another agent was first")
	errCancelled = errors.New("the race was cancelled")
	errTimeout   = errors.New("the time of the race is over")
	errStopped   = errors.New("the daemon stops")
)

// Runner runs races. Set the fields, Load, then Open. Close stops it; the next Runner continues.
type Runner struct {
	Agents Agents
	// Save saves the races of a workspace.
	Save    func(workspace string) error
	Publish func(api.Event)
	Log     *slog.Logger
	Now     func() time.Time

	mu      sync.Mutex
	races   []api.Race
	changed chan struct{} // closed at every change
	cancels map[string]context.CancelCauseFunc
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup
}

// Load takes over the races that were saved for a workspace.
func (r *Runner) Load(workspace string, races []api.Race) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range races {
		if x.Workspace == workspace && x.ID != "" && r.find(x.ID) == nil {
			r.races = append(r.races, x)
		}
	}
}

// Open continues with the races that have not ended.
func (r *Runner) Open(ctx context.Context) {
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.mu.Lock()
	r.changed, r.cancels = make(chan struct{}), map[string]context.CancelCauseFunc{}
	for _, x := range r.races {
		if !over(x.State) {
			r.start(x.ID)
		}
	}
	r.mu.Unlock()
}

// Close waits until no race runs. It ends no agent.
func (r *Runner) Close() {
	if r == nil || r.cancel == nil {
		return
	}
	r.cancel(errStopped)
	r.wg.Wait()
}

// Begin starts a race from a commit.
func (r *Runner) Begin(workspace, base string, req api.RaceRequest) (api.Race, error) {
	if err := check(req); err != nil {
		return api.Race{}, err
	}
	r.mu.Lock()
	race, err := r.record(workspace, base, req)
	if err != nil {
		r.mu.Unlock()
		return race, err
	}
	r.races = append(r.races, race)
	r.trim(workspace)
	r.mu.Unlock()
	if err := r.Save(workspace); err != nil {
		r.mu.Lock()
		r.races = slices.DeleteFunc(r.races, func(x api.Race) bool { return x.ID == race.ID })
		r.mu.Unlock()
		return race, err
	}
	r.publish(race, "race "+race.ID+" began with "+api.Count(len(race.Racers), "agent"))
	r.mu.Lock()
	r.start(race.ID)
	r.mu.Unlock()
	return clone(race), nil
}

// start runs a race. r.mu is held.
func (r *Runner) start(id string) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	r.cancels[id] = cancel
	r.wg.Go(func() {
		defer cancel(nil)
		r.run(ctx, cancel, id)
		r.mu.Lock()
		delete(r.cancels, id)
		r.mu.Unlock()
	})
}

// Get returns a race. With wait it returns when the race has ended or waits for a choice, or ctx
// ends.
func (r *Runner) Get(ctx context.Context, id string, wait bool) (api.Race, error) {
	for {
		r.mu.Lock()
		x, changed := r.find(id), r.changed
		if x == nil {
			r.mu.Unlock()
			return api.Race{}, api.Errorf(api.CodeNotFound, "there is no race %q", api.Shorten(id, 32)).WithHint("polisctl races list shows them")
		}
		now := clone(*x)
		r.mu.Unlock()
		if !wait || over(now.State) || now.State == api.RaceJudging {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, nil
		}
	}
}

// Cancel ends a race: the tasks end, and the work of the agents is saved in the trash.
func (r *Runner) Cancel(id string) (api.Race, error) {
	x, err := r.Get(context.Background(), id, false)
	if err != nil {
		return x, err
	}
	r.mu.Lock()
	cancel := r.cancels[id]
	r.mu.Unlock()
	if over(x.State) || x.State == api.RaceEnding || cancel == nil {
		return x, api.Errorf(api.CodeBadState, "race %s is %s: it cannot be cancelled", id, x.State).WithHint("polisctl races show %s", id)
	}
	cancel(errCancelled)
	return x, nil
}

// Choose chooses the winner of a race that waits for that.
func (r *Runner) Choose(id, agent string) (api.Race, error) {
	x, err := r.Get(context.Background(), id, false)
	switch {
	case err != nil:
		return x, err
	case x.State != api.RaceJudging:
		return x, api.Errorf(api.CodeBadState, "race %s is %s: it waits for no choice", id, x.State).WithHint("polisctl races show %s", id)
	case agent != "" && !slices.ContainsFunc(x.Racers, func(p api.Racer) bool { return p.Agent == agent && p.State == api.RacerEnded }):
		return x, api.Errorf(api.CodeBadRequest, "agent = %q: it did not end its task in race %s", api.Shorten(agent, 64), id).WithHint("polisctl races show %s", id)
	}
	return r.change(id, func(x *api.Race) {
		if x.State == api.RaceJudging {
			x.State, x.Winner = api.RaceEnding, agent
		}
	}), nil
}

func (r *Runner) publish(x api.Race, message string) {
	r.Publish(api.Event{Type: api.EventRace, Message: message, Data: map[string]any{"race": x.ID, "workspace": x.Workspace, "state": x.State, "winner": x.Winner}})
}
