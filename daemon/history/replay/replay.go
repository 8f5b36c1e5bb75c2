package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/receipt"
)

// Receipts are the logs of a workspace.
type Receipts interface {
	Each(ctx context.Context, want func(log string) bool, visit receipt.Visit) (*api.BrokenReceipt, error)
	Verify(ctx context.Context, anchor string) (api.ReceiptsCheck, error)
}

// Commits are the commits of a workspace.
type Commits interface {
	// Tree returns the tree of a commit whose files are all there; "" if the commit is not.
	Tree(ctx context.Context, commit string) (string, error)
	// Archive writes the files of a tree as a tar archive, as git has them.
	Archive(ctx context.Context, tree string, to io.Writer) error
	// History calls each with the commits of a branch.
	History(ctx context.Context, branch string, each func(commit string)) error
}

// Snapshots are the snapshots of a workspace.
type Snapshots interface {
	Find(ctx context.Context, id string) (api.Snapshot, bool, error)
	Verify(ctx context.Context, id string) (api.SnapshotCheck, error)
	// Lists returns the hashes of what the state of a snapshot is stored by; false if there is none.
	Lists(ctx context.Context, id string) (list, delta string, ok bool, err error)
}

// Present is the state of polisd now.
type Present struct {
	At     time.Time
	Agents []api.Agent
	// Leases are those of agents.
	Leases []PresentLease
	Refs   map[string][]string // by agent
}

// PresentLease is a lease that an agent holds.
type PresentLease struct {
	Agent string
	api.ReplayedLease
	Since time.Time
}

// Source has what a replay reads. Commits is nil in a workspace without git, Snapshots if there are none.
type Source struct {
	Workspace string
	Receipts  Receipts
	Commits   Commits
	Snapshots Snapshots
	// Present returns the state before the receipts are read.
	Present func(ctx context.Context) (Present, error)
}

// Replay rebuilds the state at the entry with this number; 0 is the newest.
func (s *Source) Replay(ctx context.Context, seq uint64) (out api.ReceiptsReplay, err error) {
	now, err := s.Present(ctx)
	if err != nil {
		return out, err
	}
	v, err := s.Receipts.Verify(ctx, "")
	if err != nil {
		return out, fmt.Errorf("verify the receipts: %w", err)
	}
	if v.Broken != nil {
		return out, receipt.Broken(s.Workspace, v.Broken)
	}
	st, err := s.rebuild(ctx, seq, now.At.Add(-settling))
	if err != nil {
		return out, err
	}
	out = st.answer(s.Workspace)
	out.Last = st.entry == st.newest
	c := &check{Source: s, state: st, out: &out}
	if err := c.commits(ctx); err != nil {
		return out, err
	}
	out.StateHash = stateHash(&out)
	if err := c.snapshots(ctx); err != nil {
		return out, err
	}
	if err := c.checkpoints(ctx); err != nil {
		return out, err
	}
	if out.Last {
		c.present(&now)
	}
	out.Unknown = append(out.Unknown, slices.Sorted(maps.Keys(st.unknown))...)
	return out, nil
}

// Target returns the commit at which the receipts have a branch at an entry; "" for the branch is the only one.
func (s *Source) Target(ctx context.Context, seq uint64, branch string) (api.ReplayedTarget, error) {
	st, err := s.rebuild(ctx, seq, time.Time{})
	if err != nil {
		return api.ReplayedTarget{}, err
	}
	if branch == "" && len(st.targets) == 1 {
		for name := range st.targets {
			branch = name
		}
	}
	t := st.targets[branch]
	if t == nil {
		return api.ReplayedTarget{}, api.Errorf(api.CodeNotFound, "the receipts of workspace %s up to entry %d have no merge into %s", s.Workspace, st.entry, cmp.Or(branch, "one branch alone")).
			WithHint("polisctl receipts show --type agent:merged lists them")
	}
	return *t, nil
}

// rebuild reads the receipts. recent is state.recent.
func (s *Source) rebuild(ctx context.Context, seq uint64, recent time.Time) (*state, error) {
	st := newState()
	st.recent = recent
	broken, err := s.Receipts.Each(ctx, func(log string) bool { return log == "" || st.agents[log] != nil }, func(log string, r *receipt.Receipt) error {
		if log == "" {
			return st.workspace(r, seq)
		}
		if st.entry != st.newest && r.Time.After(st.at) {
			return nil
		}
		return st.own(st.agents[log], r)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("replay the receipts of workspace %s: %w", s.Workspace, err)
	case broken != nil:
		return nil, receipt.Broken(s.Workspace, broken)
	case st.entry == 0 || seq > 0 && st.entry != seq:
		return nil, api.Errorf(api.CodeNotFound, "the receipts of workspace %s have no entry %d: they have %d to %d", s.Workspace, seq, st.first, st.newest).
			WithHint("polisctl receipts show lists the entries")
	}
	if st.first > 1 {
		st.lack("entries before %d were removed, because the log was too large: what was made before, and has not changed since, is not in the state", st.first)
	}
	return st, nil
}

// answer is the state as an API type.
func (s *state) answer(workspace string) api.ReceiptsReplay {
	out := api.ReceiptsReplay{Workspace: workspace, Entry: s.entry, Hash: s.hash, Time: s.at, First: s.first, Agents: []api.ReplayedAgent{}, Targets: []api.ReplayedTarget{},
		Refs: []api.ReplayedRef{}, Snapshots: []api.ReplayedSnapshot{}, Differences: []api.ReplayDifference{}, Unknown: []string{}}
	for _, name := range slices.Sorted(maps.Keys(s.agents)) {
		a := s.agents[name]
		a.Leases = []api.ReplayedLease{}
		for l, h := range a.leases {
			a.Leases = append(a.Leases, api.ReplayedLease{Path: l.path, Explicit: l.explicit, Tree: h.tree})
		}
		slices.SortFunc(a.Leases, func(a, b api.ReplayedLease) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), compareBool(a.Explicit, b.Explicit))
		})
		out.Agents = append(out.Agents, a.ReplayedAgent)
	}
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		out.Targets = append(out.Targets, *s.targets[name])
	}
	for r := range s.refs {
		if s.agents[r.agent] != nil {
			out.Refs = append(out.Refs, api.ReplayedRef{Agent: r.agent, Ref: r.name})
		}
	}
	slices.SortFunc(out.Refs, func(a, b api.ReplayedRef) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Ref, b.Ref))
	})
	for _, id := range slices.Sorted(maps.Keys(s.snapshots)) {
		out.Snapshots = append(out.Snapshots, s.snapshots[id])
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// stateHash covers what the receipts alone have.
func stateHash(out *api.ReceiptsReplay) string {
	targets := slices.Clone(out.Targets)
	for i := range targets {
		targets[i].Tree = ""
	}
	text, err := json.Marshal([]any{out.Agents, targets, out.Refs, out.Snapshots})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
