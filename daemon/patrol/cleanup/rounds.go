package cleanup

import (
	"context"
	"slices"
	"time"

	"polis/daemon/api"
)

const (
	// maxRemoved is how many agents one round removes.
	maxRemoved = 16
	// An agent that was kept is measured again after minBackoff, then after twice as long, up to
	// maxBackoff; at once if its branch, the target or its task is another one.
	minBackoff = time.Minute
	maxBackoff = 15 * time.Minute
)

// Agents are the agents that a round decides about.
type Agents interface {
	// Ephemeral returns the names of the ephemeral agents.
	Ephemeral() []string
	// WorkOver reports whether the work of an agent has ended, see Over.
	WorkOver(ctx context.Context, name string) (s State, why string, over bool)
	// CleanUp measures the agent, and removes it if Decide returns that, unless it is a dry run. A
	// decision without an action, with an error, is none: the agent is gone.
	CleanUp(ctx context.Context, was State, dryRun bool) (api.Cleanup, error)
}

// Tips are the commits of an agent's branch, of the target, and of its parent's branch, as they
// were read last.
type Tips struct{ Branch, Target, Parent string }

// kept is the last decision about an agent that stays.
type kept struct {
	state State
	tips  Tips
	c     api.Cleanup
	next  time.Time
	wait  time.Duration
}

// Rounds decides when an ephemeral agent whose work has ended is measured, and which decisions are
// new. Set its fields, then Run. It is not safe for concurrent use.
type Rounds struct {
	// Tips returns the commits that a decision about the agent depends on.
	Tips func(ctx context.Context, s State) Tips
	// Decided is called for each decision of a round that is not a dry run; news is false if it is
	// the last one about this work again.
	Decided func(s State, c api.Cleanup, news bool)
	Now     func() time.Time

	kept map[string]kept
}

// Run decides about the ephemeral agents whose work has ended, and returns the decisions. asked: a
// person wants them measured now. A dry run changes nothing, and is no decision.
func (r *Rounds) Run(ctx context.Context, agents Agents, asked, dryRun bool) []api.Cleanup {
	out := []api.Cleanup{}
	names := agents.Ephemeral()
	for name := range r.kept {
		if !slices.Contains(names, name) {
			delete(r.kept, name)
		}
	}
	removed := 0
	for _, name := range names {
		s, why, over := agents.WorkOver(ctx, name)
		if !over {
			delete(r.kept, name)
			continue
		}
		tips := r.Tips(ctx, s)
		k, ok := r.kept[name]
		if ok && !asked && k.state.Same(s) && k.tips == tips && r.Now().Before(k.next) {
			out = append(out, k.c)
			continue
		}
		if removed == maxRemoved || ctx.Err() != nil {
			if ok {
				out = append(out, k.c)
			}
			continue
		}
		c, err := agents.CleanUp(ctx, s, dryRun)
		switch {
		case err != nil && c.Action == "":
			continue // it is gone
		case err != nil:
			c.Skipped = api.AsError(err).Message
		case dryRun:
			c.Skipped = "a dry run"
		}
		c.Why = why
		out = append(out, c)
		if dryRun {
			continue
		}
		if c.Done {
			removed++
		}
		r.Decided(s, c, r.note(s, tips, c))
	}
	return out
}

// note records a decision and when an agent that stays is measured again. It reports whether the
// decision is new.
func (r *Rounds) note(s State, tips Tips, c api.Cleanup) (news bool) {
	old, known := r.kept[c.Agent]
	news = !known || !old.state.Same(s) || old.c.Status != c.Status || old.c.Action != c.Action || old.c.Skipped != c.Skipped
	if c.Done {
		delete(r.kept, c.Agent)
		return news
	}
	wait := minBackoff
	if !news {
		wait = min(2*old.wait, maxBackoff)
	}
	if r.kept == nil {
		r.kept = map[string]kept{}
	}
	r.kept[c.Agent] = kept{state: s, tips: tips, c: c, next: r.Now().Add(wait), wait: wait}
	return news
}

// KindCase is the kind of the cases of agents that are kept.
const KindCase = "cleanup"

// Settled is how such a case ends without a person.
const Settled = "the agent is gone, works again, or its work is not only there"

// Case is the case for work that only the agent has.
func Case(s State, c api.Cleanup) api.Case {
	state := api.CasePending
	if s.Status == api.StatusError {
		state = api.CaseZombieDetected
	}
	return api.Case{State: state, Kind: KindCase, Workspace: c.Workspace, Agent: c.Agent, Generation: s.Generation, Task: c.Task,
		AgentCreated: s.Created, Incident: incident(s), Evidence: append([]string{c.Why}, c.Evidence...),
		Resolves: "its work is in the target, or in the default branch of a remote, or the agent is removed or works again", Next: c.Next}
}

// incident names the work of an agent that a case is about.
func incident(s State) string { return s.Created.Format(time.RFC3339Nano) + "/" + s.Task }

// Settles reports whether a case is over after a round that decided now: the work that it is about
// is not escalated any more. That of an earlier agent of the same name, or of earlier work, is over
// too. It is false for a case of another kind.
func (r *Rounds) Settles(o api.Case, now []api.Cleanup) bool {
	return o.Kind == KindCase && !slices.ContainsFunc(now, func(c api.Cleanup) bool {
		return c.Action == api.CleanupEscalate && c.Agent == o.Agent && o.Incident == incident(r.kept[c.Agent].state)
	})
}
