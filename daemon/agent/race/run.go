package race

import (
	"context"
	"errors"
	"sync"
	"time"

	"polis/daemon/api"
)

// run takes a race from the step it is at to its end, or to that of the daemon.
func (r *Runner) run(ctx context.Context, cancel context.CancelCauseFunc, id string) {
	x, err := r.Get(ctx, id, false)
	if err != nil {
		return
	}
	if x.State == api.RaceRunning {
		x = r.compete(ctx, cancel, x)
	}
	if x.State == api.RaceJudging {
		x = r.awaitChoice(ctx, x)
	}
	if r.ctx.Err() != nil { // the next Runner continues
		return
	}
	if errors.Is(context.Cause(ctx), errCancelled) && x.State != api.RaceEnding {
		x = r.change(id, func(x *api.Race) { x.State, x.Winner, x.Error = api.RaceEnding, "", errCancelled.Error() })
	}
	r.finish(r.ctx, x)
}

// compete runs the racers to their end and returns the race with its winner, or as one that waits
// for a choice.
func (r *Runner) compete(ctx context.Context, cancel context.CancelCauseFunc, x api.Race) api.Race {
	limit := time.Duration(x.Request.Seconds) * time.Second
	if limit == 0 {
		limit = api.RaceTime * time.Second
	}
	defer time.AfterFunc(limit-r.Now().Sub(x.CreatedAt), func() { cancel(errTimeout) }).Stop()
	var wg sync.WaitGroup
	for i := range x.Racers {
		wg.Go(func() {
			p := r.drive(ctx, x, i)
			if x.Request.First && Passed(p, x.Request.Check) {
				cancel(errFirst)
			}
		})
	}
	wg.Wait()
	if r.ctx.Err() != nil || errors.Is(context.Cause(ctx), errCancelled) {
		return x
	}
	r.rivals(x.ID)
	return r.change(x.ID, func(x *api.Race) {
		passed := 0
		for _, p := range x.Racers {
			if Passed(p, x.Request.Check) {
				passed++
			}
		}
		if x.Request.Judge && passed > 0 {
			x.State = api.RaceJudging
			return
		}
		x.State, x.Winner = api.RaceEnding, Best(*x)
	})
}

// drive takes one racer to its end. It returns early if the daemon stops.
func (r *Runner) drive(ctx context.Context, x api.Race, i int) api.Racer {
	p := x.Racers[i]
	for !done(p.State) {
		next, err := r.step(ctx, x, p)
		switch {
		case r.ctx.Err() != nil:
			return p
		case ctx.Err() != nil:
			next = p
			next.State, next.Error = api.RacerCancelled, context.Cause(ctx).Error()
			if p.State != api.RacerWaiting {
				r.end(p)
			}
		case err != nil:
			next.State, next.Error = api.RacerFailed, api.Shorten(api.AsError(err).Message, 500)
		}
		p = r.racer(x.ID, i, func(q *api.Racer) { *q = next })
	}
	r.publish(x, "agent "+p.Agent+" of race "+x.ID+" is "+string(p.State)+": "+p.Result)
	return p
}

// step does what comes next for a racer.
func (r *Runner) step(ctx context.Context, x api.Race, p api.Racer) (api.Racer, error) {
	switch p.State {
	case api.RacerWaiting:
		task, err := r.Agents.Start(ctx, x, p)
		if err == nil {
			p.Task, p.State = task, api.RacerWorking
		}
		return p, err
	case api.RacerWorking:
		if err := r.Agents.Await(ctx, &p); err != nil || ctx.Err() != nil {
			return p, err
		}
		p.State = api.RacerEnded
		if p.OK && p.Commits > 0 && x.Request.Check != "" {
			p.State = api.RacerChecking
		}
		return p, nil
	}
	limit := time.Duration(x.Request.CheckSeconds) * time.Second
	if limit == 0 {
		limit = api.RaceCheckTime * time.Second
	}
	cctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	code, output, err := r.Agents.Check(cctx, x, p)
	if err != nil && cctx.Err() != nil && ctx.Err() == nil {
		code, output, err = -1, "the check did not end in "+limit.String(), nil
	}
	if err == nil {
		p.CheckCode, p.CheckOutput, p.State = &code, output, api.RacerEnded
	}
	return p, err
}

// end ends the task of a racer that others overtook.
func (r *Runner) end(p api.Racer) {
	ctx, cancel := context.WithTimeout(r.ctx, undoTime)
	defer cancel()
	if err := r.Agents.Cancel(ctx, p); err != nil {
		r.Log.Warn("task of a race not ended", "agent", p.Agent, "err", err)
	}
}

// rivals records the conflicts of those that passed.
func (r *Runner) rivals(id string) {
	x, err := r.Get(r.ctx, id, false)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, undoTime)
	defer cancel()
	c, err := r.Agents.Conflicts(ctx, x.Workspace)
	if err != nil {
		r.Log.Warn("conflicts of a race not read", "race", id, "err", err)
		return
	}
	r.change(id, func(x *api.Race) {
		for i := range x.Racers {
			x.Racers[i].Conflicts = Rivals(x.Racers[i].Agent, *x, c)
		}
	})
}

// awaitChoice waits until a winner is chosen, or the race is cancelled.
func (r *Runner) awaitChoice(ctx context.Context, x api.Race) api.Race {
	r.publish(x, "race "+x.ID+" waits for a choice")
	for {
		r.mu.Lock()
		now, changed := clone(*r.find(x.ID)), r.changed
		r.mu.Unlock()
		if now.State != api.RaceJudging {
			return now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now
		}
	}
}

// resultNow records what the task of the winner came to with the merge.
func (r *Runner) resultNow(ctx context.Context, x api.Race, note func(error)) {
	for i, p := range x.Racers {
		if p.Agent == x.Winner {
			ctx, cancel := context.WithTimeout(ctx, undoTime)
			err := r.Agents.Await(ctx, &p)
			cancel()
			if note(err); err == nil {
				r.racer(x.ID, i, func(q *api.Racer) { q.Result = p.Result })
			}
		}
	}
}

// finish merges the winner if requested, and saves the work of the others in the trash.
func (r *Runner) finish(ctx context.Context, x api.Race) {
	note := func(err error) {
		if err != nil && ctx.Err() == nil {
			text := api.Shorten(api.AsError(err).Message, 500)
			r.Log.Warn("race not ended cleanly", "race", x.ID, "err", err)
			r.change(x.ID, func(x *api.Race) {
				if x.Error == "" {
					x.Error = text
				}
			})
		}
	}
	for i, p := range x.Racers {
		if p.Agent == x.Winner || p.Gone {
			continue
		}
		uctx, cancel := context.WithTimeout(ctx, undoTime)
		trash, err := r.Agents.SaveAndRemove(uctx, x, p.Agent)
		cancel()
		if note(err); err == nil {
			r.racer(x.ID, i, func(q *api.Racer) { q.Trash, q.Gone = trash, true })
		}
	}
	if x.Winner != "" {
		if x.Request.Merge && x.MergeCommitSHA == "" {
			mctx, cancel := context.WithTimeout(ctx, mergeTime)
			commit, err := r.Agents.Merge(mctx, x, x.Winner)
			cancel()
			note(err)
			x = r.change(x.ID, func(x *api.Race) { x.MergeCommitSHA = commit })
			r.resultNow(ctx, x, note)
		}
		note(r.Agents.Keep(ctx, x, x.Winner))
	}
	if ctx.Err() != nil {
		return
	}
	at := r.Now().UTC()
	x = r.change(x.ID, func(x *api.Race) {
		x.State, x.EndedAt = api.RaceEnded, &at
		if x.Winner == "" && x.Error == errCancelled.Error() {
			x.State = api.RaceCancelled
		}
	})
	message := "race " + x.ID + " ended; no agent passed"
	if x.Winner != "" {
		message = "race " + x.ID + " ended; agent " + x.Winner + " is the best"
	}
	r.publish(x, message)
}
