package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/merge"
)

// history is a target as a list of merged branches; a commit is their names.
type history struct {
	target    []string
	conflicts map[string]string // branch -> the branch that it cannot be stacked on
	gone      map[string]bool   // branches that do not exist
	moves     int               // so many times another change moves the target first
	along     int
	checks    int
	bad       map[string]bool // with these the check fails
	broken    bool            // the check cannot be run
	onAdvance func()
	locked    int // so many times the lease is not available
}

func (h *history) Stack(ctx context.Context, reqs []merge.Request) (merge.Stack, error) {
	if h.locked > 0 {
		h.locked--
		return merge.Stack{}, api.Errorf(api.CodeLockdUnavailable, "grace")
	}
	s := merge.Stack{Target: "main", Onto: strings.Join(h.target, " ")}
	top := slices.Clone(h.target)
	for _, r := range reqs {
		it := merge.Item{Request: r}
		switch {
		case h.gone[r.Branch]:
			it.Err = api.Errorf(api.CodeNotFound, "no branch")
		case slices.Contains(top, r.Branch):
			it.Err = api.Errorf(api.CodeNothingToMerge, "nothing")
		case h.conflicts[r.Branch] != "" && slices.Contains(top, h.conflicts[r.Branch]):
			it.Err = api.Errorf(api.CodeMergeConflict, "conflict")
		default:
			top = append(top, r.Branch)
			it.Result = merge.Result{Commit: strings.Join(top, " ")}
		}
		s.Items = append(s.Items, it)
	}
	return s, ctx.Err()
}

func (h *history) Advance(_ context.Context, s merge.Stack, commit string) error {
	if h.onAdvance != nil {
		h.onAdvance()
	}
	if h.moves > 0 {
		h.moves--
		h.target = append(h.target, fmt.Sprint("other", h.moves))
	}
	if s.Onto != strings.Join(h.target, " ") {
		return api.Errorf(api.CodeRefConflict, "%w", git.ErrRefMoved)
	}
	h.target = strings.Fields(commit)
	return nil
}

func (h *history) Merged(_ context.Context, branch string) (string, error) {
	if i := slices.Index(h.target, branch); i >= 0 {
		return strings.Join(h.target[:i+1], " "), nil
	}
	return "", nil
}

func (h *history) UpdateCheckout(context.Context) (merge.CheckoutUpdate, error) {
	h.along++
	return merge.CheckoutUpdate{Updated: true, Files: true}, nil
}

func (h *history) Check(_ context.Context, commit, label string) (string, error) {
	h.checks++
	if h.broken {
		return "", api.Errorf(api.CodeInternal, "no sandbox")
	}
	for _, b := range strings.Fields(commit) {
		if h.bad[b] {
			return "log of " + label, api.Errorf(api.CodeCheckFailed, "exit code 1")
		}
	}
	return "log of " + label, nil
}

func jobs(branches ...string) []Job {
	var out []Job
	for i, b := range branches {
		out = append(out, Job{Entry: api.QueueEntry{Agent: b, Seq: uint64(i + 1)}, Request: merge.Request{Agent: b, Branch: b}})
	}
	return out
}

func codes(os []Outcome) map[string]api.Code {
	m := map[string]api.Code{}
	for _, o := range os {
		if o.Err != nil {
			m[o.Job.Entry.Agent] = api.CodeOf(o.Err)
		} else {
			m[o.Job.Entry.Agent] = ""
		}
	}
	return m
}

func TestABatchGoesAtOnce(t *testing.T) {
	h := &history{}
	got := (&BatchMerger{Merges: h, Check: h}).Land(t.Context(), jobs("a", "b", "c"))
	require.Equal(t, map[string]api.Code{"a": "", "b": "", "c": ""}, codes(got))
	require.Equal(t, []string{"a", "b", "c"}, h.target)
	require.Equal(t, 1, h.checks)
	require.Equal(t, 1, h.along)
	require.Equal(t, "updated", got[2].Project)
	require.Equal(t, "log of a b c", got[2].Log)
}

func TestWhatFailsTheCheckIsFoundAndTheOthersGo(t *testing.T) {
	h := &history{bad: map[string]bool{"c": true, "f": true}, conflicts: map[string]string{"g": "c"}}
	got := (&BatchMerger{Merges: h, Check: h}).Land(t.Context(), jobs("a", "b", "c", "d", "e", "f", "g"))
	for _, o := range got {
		if name := o.Job.Entry.Agent; name == "a" || name == "b" {
			require.Equal(t, "log of a b", o.Log, "that of the check which %s passed", name)
		}
	}
	require.Equal(t, map[string]api.Code{"a": "", "b": "", "c": api.CodeCheckFailed, "d": "", "e": "", "f": api.CodeCheckFailed, "g": ""}, codes(got))
	require.Equal(t, []string{"a", "b", "d", "e", "g"}, h.target)
	for _, o := range got {
		if o.Err != nil {
			require.Contains(t, o.Log, o.Job.Entry.Agent)
		}
	}
}

func TestATargetThatMovesMeanwhile(t *testing.T) {
	h := &history{moves: 3}
	got := (&BatchMerger{Merges: h, Check: h}).Land(t.Context(), jobs("a", "b"))
	require.Equal(t, map[string]api.Code{"a": "", "b": ""}, codes(got))
	require.Equal(t, []string{"other2", "other1", "other0", "a", "b"}, h.target)
	require.Equal(t, 4, h.checks, "what is checked is what lands")

	h = &history{moves: 100}
	var waits []int
	got = (&BatchMerger{Merges: h, Pause: func(_ context.Context, try int) error { waits = append(waits, try); return nil }}).Land(t.Context(), jobs("a", "b"))
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, waits, "it waits longer each time")
	require.Equal(t, map[string]api.Code{"a": api.CodeRefConflict, "b": api.CodeRefConflict}, codes(got))
	require.Equal(t, 100-maxTries-1, h.moves)
	require.Zero(t, h.along)
}

func TestWhatIsMergedAlready(t *testing.T) {
	h := &history{target: []string{"a", "b"}, gone: map[string]bool{"d": true}}
	js := jobs("a", "b", "c", "d")
	js[0].Known = "a" // it is on record
	got := (&BatchMerger{Merges: h}).Land(t.Context(), js)
	require.Equal(t, map[string]api.Code{"a": api.CodeNothingToMerge, "b": "", "c": "", "d": api.CodeNotFound}, codes(got))
	i := slices.IndexFunc(got, func(o Outcome) bool { return o.Job.Entry.Agent == "b" })
	require.Equal(t, "a b", got[i].Result.Commit)
}

func TestACheckThatCannotBeRunLetsNothingThrough(t *testing.T) {
	h := &history{broken: true}
	got := (&BatchMerger{Merges: h, Check: h}).Land(t.Context(), jobs("a", "b"))
	require.Equal(t, map[string]api.Code{"a": api.CodeInternal, "b": api.CodeInternal}, codes(got))
	require.Empty(t, h.target)
	js := jobs("a", "b")
	js[0].Entry.NoCheck, js[1].Entry.NoCheck = true, true
	require.Equal(t, map[string]api.Code{"a": "", "b": ""}, codes((&BatchMerger{Merges: h, Check: h}).Land(t.Context(), js)))
}

func TestALeaseThatIsNotAvailableYet(t *testing.T) {
	h := &history{locked: 2}
	require.Equal(t, map[string]api.Code{"a": ""}, codes((&BatchMerger{Merges: h, Patience: time.Minute}).Land(t.Context(), jobs("a"))))
	h = &history{locked: 2}
	require.Equal(t, map[string]api.Code{"a": api.CodeLockdUnavailable}, codes((&BatchMerger{Merges: h}).Land(t.Context(), jobs("a"))))
}

func TestACancelledBatchHasNoOutcomeForUnfinishedJobs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := &history{onAdvance: cancel, moves: 1}
	require.Empty(t, (&BatchMerger{Merges: h}).Land(ctx, jobs("a", "b")))
	require.Equal(t, []string{"other0"}, h.target)
}

// TestAnyBatch: every job has one outcome; what landed is what neither fails
// the check nor conflicts with what landed before it; no target that was ever
// reached fails the check.
func TestAnyBatch(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, len(all)).Draw(t, "n")
		h := &history{bad: map[string]bool{}, conflicts: map[string]string{}, moves: rapid.IntRange(0, 3).Draw(t, "moves")}
		for i, b := range all[:n] {
			h.bad[b] = rapid.IntRange(0, 3).Draw(t, "bad") == 0
			if i > 0 && rapid.IntRange(0, 2).Draw(t, "conflicts") == 0 {
				h.conflicts[b] = all[rapid.IntRange(0, i-1).Draw(t, "with")]
			}
		}
		got := codes((&BatchMerger{Merges: h, Check: h}).Land(t.Context(), jobs(all[:n]...)))
		require.Len(t, got, n)
		var landed []string
		for _, b := range all[:n] {
			switch {
			case slices.Contains(landed, h.conflicts[b]):
				require.Equal(t, api.CodeMergeConflict, got[b], b)
			case h.bad[b]:
				require.Equal(t, api.CodeCheckFailed, got[b], b)
			default:
				require.Empty(t, got[b], b)
				landed = append(landed, b)
			}
		}
		require.Equal(t, landed, slices.DeleteFunc(slices.Clone(h.target), func(b string) bool { return strings.HasPrefix(b, "other") }))
	})
}

func TestAFailedOutcomeHasNoCommit(t *testing.T) {
	o := Outcome{Result: merge.Result{Commit: "c", Paths: []string{"a"}}, Log: "log", Project: "updated", Note: "note"}
	require.Equal(t, api.QueueOutcome{MergeCommitSHA: "c", Paths: []string{"a"}, Log: "log", Project: "updated", Note: "note"}, o.Report())
	o.Err = api.Errorf(api.CodeMergeConflict, "x").With("paths", []string{"b"})
	require.Equal(t, api.QueueOutcome{Paths: []string{"b"}, Log: "log", Project: "updated", Note: "note"}, o.Report())
	o.Err = errors.New("git")
	require.Equal(t, []string{"a"}, o.Report().Paths)
}

// hooked is a check that fails, by a hook or by its command.
type hooked struct{ hook string }

func (c hooked) Check(context.Context, string, string) (string, error) {
	err := api.Errorf(api.CodeCheckFailed, "no")
	if c.hook != "" {
		err = err.With(api.DetailHook, c.hook)
	}
	return "/logs/x", err
}

// What ran is recorded with the result: the configuration can be another one when a person reads it.
func TestAnOutcomeHasTheCommandThatRan(t *testing.T) {
	for hook, want := range map[string]string{"": "make test", "commit-msg": ""} {
		l := &BatchMerger{Merges: &history{}, Check: hooked{hook}, Command: "make test"}
		done := l.Land(t.Context(), []Job{{Entry: api.QueueEntry{Agent: "a"}, Request: merge.Request{Branch: "a"}}})
		require.Len(t, done, 1)
		require.Equal(t, []string{"/logs/x", want}, []string{done[0].Log, done[0].Check})
		require.Error(t, done[0].Err)
	}
	h := &history{}
	l := &BatchMerger{Merges: h, Check: h, Command: "make test"}
	done := l.Land(t.Context(), []Job{{Entry: api.QueueEntry{Agent: "a"}, Request: merge.Request{Branch: "a"}}})
	require.NoError(t, done[0].Err)
	require.Equal(t, "make test", done[0].Check)
}
