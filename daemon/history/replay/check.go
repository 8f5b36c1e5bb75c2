package replay

import (
	"context"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
)

const (
	// maxDifferences bounds the differences that are named.
	maxDifferences = 1000
	// settling is how recent a change may be that the receipts, or the lock table, do not have yet.
	settling = 3 * time.Second
)

// check compares a state with what can be verified.
type check struct {
	*Source
	state *state
	out   *api.ReceiptsReplay
}

func (c *check) same(what, recorded, found string) {
	c.out.Verified++
	if recorded == found {
		return
	}
	if len(c.out.Differences) == maxDifferences {
		c.state.lack("differences: more than %d are not named", maxDifferences)
		return
	}
	c.out.Differences = append(c.out.Differences, api.ReplayDifference{What: what, Recorded: recorded, Found: found})
}

// commits compares the commits of merges with the repository: they are there with all their files, and in the history of
// their branch.
func (c *check) commits(ctx context.Context) error {
	if c.Commits == nil {
		return nil
	}
	left := maps.Clone(c.state.merges)
	for i := range c.out.Targets {
		t := &c.out.Targets[i]
		tree, err := c.Commits.Tree(ctx, t.Commit)
		if err != nil {
			return err
		}
		found := "commit " + t.Commit
		if t.Tree = tree; tree == "" {
			found = "no such commit, or one whose files are missing"
		}
		c.same("target "+t.Branch, "commit "+t.Commit, found)
		if err := c.Commits.History(ctx, t.Branch, func(id string) { delete(left, id) }); err != nil {
			return err
		}
	}
	for _, id := range c.state.order {
		found := "in the history of its target"
		if _, missing := left[id]; missing {
			found = "not in it"
		}
		c.same("merge "+id, "in the history of its target", found)
	}
	return nil
}

// snapshots compares recorded snapshots with what is stored.
func (c *check) snapshots(ctx context.Context) error {
	if c.Snapshots == nil {
		return nil
	}
	for _, s := range c.out.Snapshots {
		if c.state.gone[s.ID] {
			continue // a later entry has its removal
		}
		what := "snapshot " + s.ID
		rec, ok, err := c.Snapshots.Find(ctx, s.ID)
		if err != nil {
			return err
		}
		if !ok {
			c.same(what, "stored", "not stored, and no entry has its removal")
			continue
		}
		if s.Hash != "" {
			c.same(what, "content "+s.Hash, "content "+rec.Hash)
			c.same(what, "metadata "+s.Metadata, "metadata "+rec.Metadata)
		}
		v, err := c.Snapshots.Verify(ctx, s.ID)
		if err != nil {
			return err
		}
		c.same(what, "intact", soundness(v))
	}
	return nil
}

// soundness is what a verification found.
func soundness(v api.SnapshotCheck) string {
	if v.Intact {
		return "intact"
	}
	return "damaged: " + api.Shorten(slices.Concat(v.Damaged, []string{"unknown"})[0], 300)
}

// present compares the newest state with that of polisd.
func (c *check) present(now *Present) {
	there := map[string]*api.Agent{}
	for i := range now.Agents {
		if now.Agents[i].CreatedAt.Before(now.At) {
			there[now.Agents[i].Name] = &now.Agents[i]
		}
	}
	whole := c.out.First == 1
	for _, a := range c.out.Agents {
		began := c.state.agents[a.Name].began
		switch is := there[a.Name]; {
		case is == nil && began.After(now.At.Add(-settling)): // it began meanwhile
		case is == nil:
			c.same("agent "+a.Name, "exists", "does not exist")
		default:
			c.same("agent "+a.Name, "exists", "exists")
			if a.PolicyHash != "" {
				c.same("policy of agent "+a.Name, a.PolicyHash, PolicyHash(is.Policy))
			}
			if a.Branch != "" {
				c.same("branch of agent "+a.Name, a.Branch, is.Branch)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if c.state.agents[name] == nil && whole {
			c.same("agent "+name, "does not exist", "exists")
		}
	}
	c.leases(now)
}

// leases compares leases, except those that changed a moment ago.
func (c *check) leases(now *Present) {
	before := now.At.Add(-settling)
	type key struct {
		agent string
		lease
	}
	text := func(k key) string {
		if k.explicit {
			return "lock of agent " + k.agent + " on " + api.PrintPath(api.DecodePath(k.path))
		}
		return "lease of agent " + k.agent + " on " + api.PrintPath(api.DecodePath(k.path))
	}
	is := map[key]bool{}
	for _, l := range now.Leases {
		a := c.state.agents[l.Agent]
		k := key{l.Agent, lease{l.Path, l.Explicit}}
		if is[k] = true; a == nil || l.Since.After(before) || a.ended[k.lease] {
			continue
		}
		if _, recorded := a.leases[k.lease]; recorded {
			c.out.Verified++
		} else {
			c.same(text(k), "not held", "held")
		}
	}
	for _, a := range c.out.Agents {
		for l, h := range c.state.agents[a.Name].leases {
			if k := (key{a.Name, l}); !is[k] && h.at.Before(before) {
				c.same(text(k), "held", "not held")
			}
		}
	}
	slices.SortFunc(c.out.Differences, func(a, b api.ReplayDifference) int {
		if a.What < b.What {
			return -1
		}
		return 1
	})
}
