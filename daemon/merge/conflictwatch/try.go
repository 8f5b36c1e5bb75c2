package conflictwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/merge"
)

const (
	maxTries = 4096 // merges tried and cached; beyond 90 agents some are skipped
	maxNamed = 100  // paths of a merge that are named
)

// attempt is a merge to try.
type attempt struct {
	pair     merge.Pair
	agents   []string
	branches []string
}

func (a attempt) key() string { return strings.Join(a.agents, "\x00") }

// attempts lists the merges that the branches of a snapshot make: each with the target, then each
// with each. A branch without commits of its own has no conflicts beyond the target's.
func (p *snapshot) attempts() []attempt {
	var with, pairs []attempt
	for i, a := range p.branches {
		if !a.own() {
			continue
		}
		with = append(with, attempt{merge.Pair{Ours: a.onto, Theirs: a.tip}, []string{a.Name}, []string{a.Branch, p.target}})
		for _, b := range p.branches[i+1:] {
			if b.own() && a.tip != b.tip && a.base != "" && b.base != "" {
				pairs = append(pairs, attempt{merge.Pair{Ours: a.tip, Theirs: b.tip}, []string{a.Name, b.Name}, []string{a.Branch, b.Branch}})
			}
		}
	}
	all := append(with, pairs...)
	if over := len(all) - maxTries; over > 0 {
		p.skipped, all = over, all[:maxTries]
	}
	return all
}

// try tries the merges that are not cached, and publishes changes.
func (r *Watcher) try(ctx context.Context, p *snapshot) error {
	all := p.attempts()
	tried := make(map[merge.Pair]merge.Tried, len(all))
	var fresh []attempt
	seen := map[merge.Pair]bool{}
	for _, a := range all {
		if t, ok := r.tried[a.pair]; ok {
			tried[a.pair] = t
		} else if !seen[a.pair] {
			seen[a.pair] = true
			fresh = append(fresh, a)
		}
	}
	need := chargedAgents(fresh)
	for _, agent := range slices.Sorted(maps.Keys(need)) {
		got, err := merge.Try(r.charged(ctx, agent), r.Git.Bare(), r.Scratch, need[agent])
		if err != nil {
			return err
		}
		for i, t := range got {
			if isPermanent(ctx, t.Err) {
				t.Paths = slices.Clone(t.Paths[:min(len(t.Paths), maxNamed)])
				tried[need[agent][i]] = t
			} else {
				p.fail(ctx, "%w", t.Err)
			}
		}
	}
	r.tried, p.tried = tried, len(tried)
	r.record(p, all)
	return nil
}

// chargedAgents returns which agent each merge is charged to: of the two, the one that has
// more of them, which is who has just made a commit.
func chargedAgents(all []attempt) map[string][]merge.Pair {
	count, by := map[string]int{}, map[string][]merge.Pair{}
	for _, a := range all {
		for _, agent := range a.agents {
			count[agent]++
		}
	}
	for _, a := range all {
		payer := a.agents[0]
		for _, agent := range a.agents[1:] {
			if count[agent] > count[payer] {
				payer = agent
			}
		}
		by[payer] = append(by[payer], a.pair)
	}
	return by
}

func (r *Watcher) charged(ctx context.Context, agent string) context.Context {
	if r.Charge == nil {
		return ctx
	}
	return r.Charge(ctx, agent)
}

// isPermanent reports whether the same merge would end like this again: not if it
// was we who had no time or could not start git.
func isPermanent(ctx context.Context, err error) bool {
	_, refused := git.ExitCode(err)
	late := ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	return err == nil || refused || late || errors.Is(err, git.ErrTooLarge)
}

// record puts the conflicts into the snapshot and publishes changes.
func (r *Watcher) record(p *snapshot, all []attempt) {
	now := map[string]api.ConflictMerge{}
	for _, a := range all {
		old, had := r.before[a.key()]
		t, known := r.tried[a.pair]
		switch {
		case !known || t.Err != nil:
			if had {
				now[a.key()] = old
			}
			switch {
			case !known && had:
				p.merges = append(p.merges, old)
			case known:
				p.merges = append(p.merges, api.ConflictMerge{Agents: a.agents, Branches: a.branches, Paths: []string{}, Since: p.time, Error: api.Shorten(t.Err.Error(), 300)})
			}
			continue
		case len(t.Paths) == 0:
			continue
		}
		m := api.ConflictMerge{Agents: a.agents, Branches: a.branches, Paths: t.Paths, Total: t.Total, Since: p.time}
		if had {
			m.Since = old.Since
		}
		if !had || slices.ContainsFunc(m.Paths, func(path string) bool { return !slices.Contains(old.Paths, path) }) {
			r.publish(api.EventConflictFound, m, fmt.Sprintf("%s conflict in %s: %s", strings.Join(m.Branches, " and "), api.Count(m.Total, "file"), named(m)))
		}
		now[a.key()] = m
		p.merges = append(p.merges, m)
	}
	var gone []string
	for key := range r.before {
		if _, still := now[key]; !still {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	for _, key := range gone {
		m := r.before[key]
		if p.partial { // what was not read may still conflict
			now[key] = m
			p.merges = append(p.merges, m)
			continue
		}
		r.publish(api.EventConflictGone, m, strings.Join(m.Branches, " and ")+" no longer conflict")
	}
	r.before = now
}

func (r *Watcher) publish(kind string, m api.ConflictMerge, message string) {
	r.Publish(api.Event{Type: kind, Agent: m.Agents[0], Message: message,
		Data: map[string]any{"workspace": r.Workspace, "agents": m.Agents, "branches": m.Branches, "paths": m.Paths, "total": m.Total}})
}

// named writes a few paths, quoted: they can have any bytes.
func named(m api.ConflictMerge) string {
	var b strings.Builder
	for i, path := range m.Paths[:min(len(m.Paths), 3)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", api.Shorten(path, 120))
	}
	if more := m.Total - 3; more > 0 {
		fmt.Fprintf(&b, ", and %d more (polisctl --json conflicts has up to 100)", more)
	}
	return b.String()
}
