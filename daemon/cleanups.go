package daemon

import (
	"context"
	"slices"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/cleanup"
	"polis/daemon/remote"
	"polis/daemon/worktree"
)

const (
	// remoteTime bounds the query of one remote, remotesTime that of all, before an agent is removed.
	remoteTime  = 20 * time.Second
	remotesTime = time.Minute
	// maxCleanups is how many agents one cycle removes.
	maxCleanups = 16
	// An agent that was kept is measured again after keptFor, then after twice as long, up to
	// keptMost; at once if its branch, the target or its task is another one.
	keptFor  = time.Minute
	keptMost = 15 * time.Minute
)

// Measure reads the agent's worktree, branch and stash. Remotes are queried only if all else would
// let the agent go.
func (r repo) Measure(ctx context.Context, a *agent.Agent) cleanup.Measured {
	m := cleanup.Measured{Target: r.w.agents.Target}
	fail := func(err error) cleanup.Measured { m.Err = err; return m }
	if err := r.w.whole(); err != nil {
		return fail(err)
	}
	k := a.Copy()
	st, err := r.w.git.Status(r.w.d.charge(ctx, k.Name), k.Name, k.Branch, worktree.View{})
	if err != nil {
		return fail(err)
	}
	m.Uncommitted, m.Unmerged = st.Staged+st.Unstaged+st.Untracked+st.Conflicted, st.Ahead
	stash, err := worktree.PrivateStash(a.WS.Root.Private(a.Name()))
	if err != nil {
		return fail(err)
	}
	m.Stash = stash != ""
	if m.Unmerged == 0 || m.Uncommitted > 0 || m.Stash {
		return m
	}
	tips, err := r.w.git.Tips(r.w.d.charge(ctx, k.Name), k.Name, k.Branch)
	if err != nil {
		return fail(err)
	}
	if m.Parent = r.parentHas(ctx, a, tips); m.Parent == "" {
		r.askRemotes(ctx, tips, &m)
	}
	return m
}

// askRemotes queries every remote of the project for the commits. One that does not answer in time
// has none of them.
func (r repo) askRemotes(ctx context.Context, tips []string, m *cleanup.Measured) {
	ctx, cancel := context.WithTimeout(ctx, remotesTime)
	defer cancel()
	p, err := r.w.git.Project(ctx)
	if err != nil || p == nil || len(tips) == 0 {
		return
	}
	list, err := remote.List(ctx, p)
	if err != nil {
		r.w.d.Log.Warn("remotes of the project not read", "workspace", r.w.agents.Name, "err", err)
		return
	}
	for _, of := range list {
		m.Asked = append(m.Asked, of.Name)
		rctx, cancel := context.WithTimeout(ctx, remoteTime)
		has, err := r.w.remote.DefaultHas(rctx, of.Name, tips)
		cancel()
		switch {
		case err != nil:
			r.w.d.Log.Warn("remote not queried before an agent is removed", "workspace", r.w.agents.Name, "path", of.Name, "err", err)
			m.Silent = append(m.Silent, of.Name)
		case has && m.Remote == "":
			m.Remote = of.Name
		}
	}
}

// keptAgent is the last decision about an agent that stays.
type keptAgent struct {
	state cleanup.State
	tips  [3]string // of its branch, of the target, and of its parent's branch
	c     api.Cleanup
	next  time.Time
	wait  time.Duration
}

// cleanUp decides about the ephemeral agents whose work has ended, and returns the decisions. p.turn
// is held. asked: a person wants them measured now.
func (p *patroller) cleanUp(ctx context.Context, asked, dryRun bool) []api.Cleanup {
	out := []api.Cleanup{}
	names := p.d.agents.Ephemeral()
	for name := range p.kept {
		if !slices.Contains(names, name) {
			delete(p.kept, name)
		}
	}
	if !dryRun {
		defer func() {
			if ctx.Err() == nil {
				p.settleCleanups(out)
			}
		}()
	}
	removed := 0
	for _, name := range names {
		s, why, over := p.d.agents.WorkOver(ctx, name)
		if !over {
			delete(p.kept, name)
			continue
		}
		tips := p.d.tipsOf(ctx, s)
		k, ok := p.kept[name]
		if ok && !asked && k.state.Same(s) && k.tips == tips && time.Now().Before(k.next) {
			out = append(out, k.c)
			continue
		}
		if removed == maxCleanups || ctx.Err() != nil {
			if ok {
				out = append(out, k.c)
			}
			continue
		}
		c, err := p.d.agents.CleanUp(ctx, s, dryRun)
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
		p.noteCleanup(s, tips, c)
	}
	return out
}

// noteCleanup publishes a decision, once, and notes when an agent that stays is measured again.
func (p *patroller) noteCleanup(s cleanup.State, tips [3]string, c api.Cleanup) {
	old, known := p.kept[c.Agent]
	news := !known || !old.state.Same(s) || old.c.Status != c.Status || old.c.Action != c.Action || old.c.Skipped != c.Skipped
	if c.Done {
		delete(p.kept, c.Agent)
	} else {
		wait := keptFor
		if !news {
			wait = min(2*old.wait, keptMost)
		}
		p.kept[c.Agent] = keptAgent{state: s, tips: tips, c: c, next: time.Now().Add(wait), wait: wait}
	}
	if c.Action == api.CleanupEscalate {
		p.openCleanup(s, c)
	}
	if !news {
		return
	}
	p.d.Log.Info("patrol decided about an agent whose work has ended", "agent", c.Agent, "status", c.Status, "action", c.Action, "done", c.Done, "reason", c.Skipped)
	p.d.hub.Publish(api.Event{Type: api.EventCleanup, Agent: c.Agent, Message: c.Text(), Data: map[string]any{"cleanup": c}})
}

// caseCleanup is the kind of the cases of agents that are kept.
const caseCleanup = "cleanup"

// openCleanup opens a case for work that only the agent has.
func (p *patroller) openCleanup(s cleanup.State, c api.Cleanup) {
	state := api.CasePending
	if s.Status == api.StatusError {
		state = api.CaseZombieDetected
	}
	p.d.openCase(api.Case{State: state, Kind: caseCleanup, Workspace: c.Workspace, Agent: c.Agent, Generation: s.Generation, Task: c.Task,
		AgentCreated: s.Created, Incident: cleanupIncident(s), Evidence: append([]string{c.Why}, c.Evidence...),
		Resolves: "its work is in the target, or in the default branch of a remote, or the agent is removed or works again", Next: c.Next})
}

// cleanupIncident names the work of an agent that a case is about.
func cleanupIncident(s cleanup.State) string {
	return s.Created.Format(time.RFC3339Nano) + "/" + s.Task
}

// settleCleanups resolves the cases of agents whose work is not escalated any more. Those of an
// earlier agent of the same name, or of earlier work, are resolved too.
func (p *patroller) settleCleanups(now []api.Cleanup) {
	p.d.settleCases(func(o api.Case) bool {
		return o.Kind == caseCleanup && !slices.ContainsFunc(now, func(c api.Cleanup) bool {
			return c.Action == api.CleanupEscalate && c.Agent == o.Agent && o.Incident == cleanupIncident(p.kept[c.Agent].state)
		})
	}, "the agent is gone, works again, or its work is not only there")
}

// tipsOf returns the commits of an agent's branch and of the target, as they were read last.
func (d *Daemon) tipsOf(ctx context.Context, s cleanup.State) (out [3]string) {
	d.mu.Lock()
	w := d.workspaces[s.Workspace]
	d.mu.Unlock()
	if w == nil || w.branches == nil {
		return out
	}
	if tips, err := w.branches.Last(ctx); err == nil {
		out = [3]string{tips.Of[s.Agent], tips.Onto, tips.Of[d.agents.ParentOf(s.Agent)]}
	}
	return out
}
