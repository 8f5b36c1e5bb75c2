package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/history/receipt"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ledger is the receipts of a test, as they are read.
type ledger struct {
	logs   []string
	of     map[string][]receipt.Receipt
	broken *api.BrokenReceipt
	now    time.Time
}

func (l *ledger) add(t *testing.T, log, typ, agent string, data any) uint64 {
	t.Helper()
	text, err := json.Marshal(data)
	require.NoError(t, err)
	if l.of == nil {
		l.of, l.now = map[string][]receipt.Receipt{}, epoch
	}
	if l.of[log] == nil {
		l.logs = append(l.logs, log)
	}
	l.now = l.now.Add(time.Second)
	seq := uint64(len(l.of[log]) + 1)
	l.of[log] = append(l.of[log], receipt.Receipt{Hash: fmt.Sprintf("%s%d", log, seq), Entry: receipt.Entry{Seq: seq, Time: l.now, Type: typ, Agent: agent, Data: text}})
	return seq
}

func (l *ledger) Each(_ context.Context, want func(string) bool, visit receipt.Visit) (*api.BrokenReceipt, error) {
	for _, log := range l.logs {
		if !want(log) {
			continue
		}
		for i := range l.of[log] {
			if err := visit(log, &l.of[log][i]); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

func (l *ledger) Verify(context.Context, string) (api.ReceiptsCheck, error) {
	return api.ReceiptsCheck{Broken: l.broken}, nil
}

// commits has trees of commits, and what each branch contains.
type commits struct {
	trees   map[string]string
	history []string
}

func (c commits) Tree(_ context.Context, id string) (string, error) { return c.trees[id], nil }
func (c commits) Archive(_ context.Context, tree string, to io.Writer) error {
	_, err := io.WriteString(to, tree)
	return err
}
func (c commits) History(_ context.Context, _ string, each func(string)) error {
	for _, id := range c.history {
		each(id)
	}
	return nil
}

type snapshots map[string]api.Snapshot

func (s snapshots) Find(_ context.Context, id string) (api.Snapshot, bool, error) {
	r, ok := s[id]
	return r, ok, nil
}

func (s snapshots) Verify(_ context.Context, id string) (api.SnapshotCheck, error) {
	return api.SnapshotCheck{ID: id, Intact: id != "damaged", Damaged: []string{"a file"}}, nil
}

func (s snapshots) Lists(_ context.Context, id string) (list, delta string, ok bool, err error) {
	r, ok := s[id]
	return r.Manifest, r.Note, ok, nil // the note stands for the delta
}

type fields = map[string]any

// world is a workspace with a life, and the state of polisd at its end.
func world(t *testing.T) (*ledger, *Source, *Present) {
	l, p := &ledger{}, api.Policy{Read: []string{"**"}}
	l.add(t, "", api.ReceiptOpened, "", fields{"since": epoch, "clean": true})
	l.add(t, "", api.EventAgentCreated, "ann", fields{"branch": "agent/ann", "base_type": "custom", "role": "docs", "policy": p})
	l.add(t, "", api.EventAgentCreated, "bob", fields{"branch": "agent/bob"})
	l.add(t, "ann", api.ReceiptLeases, "ann", fields{"leases": []api.LeaseChange{{Path: "a", Granted: true, Held: true}, {Path: "b", Granted: true, Held: true}, {Path: "c", Granted: true}}})
	l.add(t, "ann", api.EventAgentRef, "ann", fields{"ref": "refs/heads/x"})
	l.add(t, "", api.EventAgentMerged, "ann", fields{"target": "main", "merge_commit_sha": "c1"}) // 4
	l.add(t, "ann", api.ReceiptLeases, "ann", fields{"leases": []api.LeaseChange{{Path: "b"}}})
	l.add(t, "", api.EventSnapshot, "ann", fields{"snapshot": "s1", "hash": "h1", "metadata_hash": "m1"}) // 5
	l.add(t, "", api.EventAgentRemoved, "bob", fields{})                                                  // 6
	l.add(t, "", api.EventAgentMerged, "ann", fields{"target": "main", "merge_commit_sha": "c2"})         // 7
	now := &Present{At: l.now.Add(time.Hour), Agents: []api.Agent{{Name: "ann", Branch: "agent/ann", Policy: p, CreatedAt: epoch}},
		Leases: []PresentLease{{Agent: "ann", ReplayedLease: api.ReplayedLease{Path: "a"}, Since: epoch}}}
	return l, &Source{Workspace: "ws", Receipts: l, Commits: commits{map[string]string{"c1": "t1", "c2": "t2"}, []string{"c0", "c1", "c2"}},
		Snapshots: snapshots{"s1": {ID: "s1", Hash: "h1", Metadata: "m1"}}, Present: func(context.Context) (Present, error) { return *now, nil }}, now
}

func TestAStateIsRebuiltFromReceipts(t *testing.T) {
	l, s, _ := world(t)
	end, err := s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.True(t, end.Last)
	require.Empty(t, end.Differences)
	require.Empty(t, end.Unknown)
	require.EqualValues(t, 7, end.Entry)
	require.Equal(t, []api.ReplayedTarget{{Branch: "main", Commit: "c2", Tree: "t2", Entry: 7, Merges: 2}}, end.Targets)
	require.Len(t, end.Agents, 1)
	require.Equal(t, []api.ReplayedLease{{Path: "a"}}, end.Agents[0].Leases)
	require.Equal(t, PolicyHash(api.Policy{Read: []string{"**"}}), end.Agents[0].PolicyHash)
	require.Equal(t, []api.ReplayedRef{{Agent: "ann", Ref: "refs/heads/x"}}, end.Refs)

	mid, err := s.Replay(t.Context(), 4)
	require.NoError(t, err)
	require.False(t, mid.Last)
	require.Empty(t, mid.Differences)
	require.Len(t, mid.Agents, 2)
	require.Equal(t, []api.ReplayedLease{{Path: "a"}, {Path: "b"}}, mid.Agents[0].Leases)
	require.Equal(t, "c1", mid.Targets[0].Commit)
	require.Empty(t, mid.Snapshots)
	require.NotEqual(t, end.StateHash, mid.StateHash)
	again, err := s.Replay(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, mid.StateHash, again.StateHash)

	var tree strings.Builder
	require.NoError(t, s.Archive(t.Context(), 5, "", &tree))
	require.Equal(t, "t1", tree.String())
	require.Equal(t, api.CodeNotFound, api.CodeOf(s.Archive(t.Context(), 3, "", io.Discard)))

	_, err = s.Replay(t.Context(), 99)
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	l.broken = &api.BrokenReceipt{Log: "ann", Seq: 2, Why: "it does not match its hash"}
	_, err = s.Replay(t.Context(), 4)
	require.Equal(t, api.CodeReceiptsBroken, api.CodeOf(err))
	require.ErrorContains(t, err, "entry 2")
}

// Each thing that is not as the receipts have it is named, and alone.
func TestDifferencesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, l *ledger, s *Source, now *Present)
		what   string
	}{
		"a commit that is gone": {func(_ *testing.T, _ *ledger, s *Source, _ *Present) { delete(s.Commits.(commits).trees, "c2") }, "target main"},
		"a merge that was taken out of the history": {func(_ *testing.T, _ *ledger, s *Source, _ *Present) {
			s.Commits = commits{s.Commits.(commits).trees, []string{"c0", "c2"}}
		}, "merge c1"},
		"a snapshot that is gone": {func(_ *testing.T, _ *ledger, s *Source, _ *Present) { delete(s.Snapshots.(snapshots), "s1") }, "snapshot s1"},
		"a snapshot of other files": {func(_ *testing.T, _ *ledger, s *Source, _ *Present) {
			s.Snapshots.(snapshots)["s1"] = api.Snapshot{Hash: "h2", Metadata: "m1"}
		}, "snapshot s1"},
		"an agent without a receipt": {func(_ *testing.T, _ *ledger, _ *Source, now *Present) {
			now.Agents = append(now.Agents, api.Agent{Name: "eve"})
		}, "agent eve"},
		"an agent that is gone": {func(_ *testing.T, _ *ledger, _ *Source, now *Present) { now.Agents = nil }, "agent ann"},
		"another policy":        {func(_ *testing.T, _ *ledger, _ *Source, now *Present) { now.Agents[0].Policy.Write = []string{"**"} }, "policy of agent ann"},
		"a lease without a receipt": {func(_ *testing.T, _ *ledger, _ *Source, now *Present) {
			now.Leases = append(now.Leases, PresentLease{Agent: "ann", ReplayedLease: api.ReplayedLease{Path: "z"}})
		}, "lease of agent ann on z"},
		"a lease that is not held": {func(_ *testing.T, _ *ledger, _ *Source, now *Present) { now.Leases = nil }, "lease of agent ann on a"},
	} {
		t.Run(name, func(t *testing.T) {
			l, s, now := world(t)
			c.change(t, l, s, now)
			r, err := s.Replay(t.Context(), 0)
			require.NoError(t, err)
			require.Len(t, r.Differences, 1)
			require.Equal(t, c.what, r.Differences[0].What)
		})
	}
	l, s, _ := world(t)
	l.add(t, "", api.EventSnapshot, "ann", fields{"snapshot": "damaged"})
	s.Snapshots.(snapshots)["damaged"] = api.Snapshot{ID: "damaged"}
	r, err := s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, "damaged: a file", r.Differences[0].Found)
}

// A lease that ends while the receipts are read is no difference.
func TestALeaseThatEndsMeanwhile(t *testing.T) {
	l, s, now := world(t)
	now.At = l.now
	l.add(t, "ann", api.ReceiptLeases, "ann", fields{"leases": []api.LeaseChange{{Path: "a", Time: l.now.Add(time.Second)}}})
	r, err := s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, r.Differences)
	now.At = l.now.Add(time.Hour)
	r, err = s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, r.Differences, 1)
}

// A restart of polisd ends what is not reclaimed; what a later entry removes is no difference before it; and an agent
// with the name of a removed one has none of its leases.
func TestRestartsRemovalsAndNames(t *testing.T) {
	l, s, now := world(t)
	l.add(t, "", api.ReceiptOpened, "", fields{"since": l.now.Add(time.Second)})
	now.Leases = nil
	r, err := s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, r.Differences)
	require.Empty(t, r.Agents[0].Leases)
	l.add(t, "ann", api.ReceiptLeases, "ann", fields{"leases": []api.LeaseChange{{Path: "a", Granted: true, Held: true}}})
	l.add(t, "", api.EventSnapshotRemoved, "ann", fields{"snapshot": "s1"})
	delete(s.Snapshots.(snapshots), "s1")
	r, err = s.Replay(t.Context(), 7)
	require.NoError(t, err)
	require.Len(t, r.Snapshots, 1)
	require.Empty(t, r.Differences)
	l.add(t, "", api.EventAgentRemoved, "ann", fields{})
	l.add(t, "", api.EventAgentRestored, "ann", fields{"was": "ann"})
	r, err = s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, r.Agents[0].Leases)
	require.Empty(t, r.Refs)
	require.Equal(t, PolicyHash(api.Policy{Read: []string{"**"}}), r.Agents[0].PolicyHash)
}

// TestCheckpointsAreCompared: the last one of each agent is in its state; those that are stored have what was recorded; those
// that limits removed are no difference.
func TestCheckpointsAreCompared(t *testing.T) {
	l, s, _ := world(t)
	checkpoint := func(id, delta string) {
		l.add(t, "ann", api.ReceiptCheckpoint, "ann", fields{"snapshot": id, "why": "task", "list": "l1", "delta": delta, "hash": "h-" + id})
	}
	checkpoint("gone", "")
	checkpoint("k1", "d1")
	at := l.add(t, "", api.EventAgentSettings, "ann", fields{})
	checkpoint("k2", "d2")
	l.add(t, "", api.EventAgentSettings, "ann", fields{})
	stored := s.Snapshots.(snapshots)
	stored["k1"] = api.Snapshot{ID: "k1", Manifest: "l1", Note: "d1"}
	stored["k2"] = api.Snapshot{ID: "k2", Manifest: "l1", Note: "d2"}
	r, err := s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, r.Differences)
	require.Equal(t, &api.ReplayedCheckpoint{ID: "k2", Why: "task", List: "l1", Delta: "d2", Hash: "h-k2", Entry: 6}, r.Agents[0].Checkpoint)
	before, err := s.Replay(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, "k1", before.Agents[0].Checkpoint.ID)
	require.NotEqual(t, r.StateHash, before.StateHash)
	stored["k1"] = api.Snapshot{ID: "k1", Manifest: "other", Note: "d1"}
	r, err = s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []api.ReplayDifference{{What: "checkpoint k1", Recorded: "files l1 d1", Found: "files other d1"}}, r.Differences)
}

// However many receipts there are, the state has a bounded size, and says what it lacks.
func TestTheStateIsBounded(t *testing.T) {
	l, s, now := world(t)
	now.Leases = nil
	entry := &l.of["ann"][0]
	for i := range 3 * maxItems / 100 {
		var list []api.LeaseChange
		for j := range 100 {
			list = append(list, api.LeaseChange{Path: fmt.Sprint(i, "/", j), Held: true})
		}
		text, err := json.Marshal(fields{"leases": list})
		require.NoError(t, err)
		l.of["ann"] = append(l.of["ann"], receipt.Receipt{Entry: receipt.Entry{Seq: uint64(i + 9), Time: l.now, Type: entry.Type, Data: text}})
	}
	for i := range maxItems + 10 {
		l.of[""] = append(l.of[""], receipt.Receipt{Entry: receipt.Entry{Seq: uint64(8 + i), Time: l.now, Type: api.EventAgentMerged, Agent: "ann", Data: json.RawMessage(fmt.Sprintf(`{"target":"main","merge_commit_sha":"x%d"}`, i))}})
	}
	st, err := s.rebuild(t.Context(), 0, time.Time{})
	require.NoError(t, err)
	require.LessOrEqual(t, st.leases, maxItems)
	require.Len(t, st.merges, maxItems)
	require.Len(t, st.order, maxItems)
	r, err := s.Replay(t.Context(), 0)
	require.NoError(t, err)
	require.LessOrEqual(t, len(r.Differences), maxDifferences)
	require.Contains(t, strings.Join(r.Unknown, "\n"), "leases: more than")
}
