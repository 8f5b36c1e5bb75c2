package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

var began = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func exit(code int) End {
	return End{At: began.Add(41 * time.Second), By: api.EndExit, Exit: &code}
}

func running() api.Task {
	t := api.Task{ID: "a1.1", Agent: "a1"}
	Begin(&t, began, []string{"do"}, "base")
	return t
}

func TestEveryEndHasAResultInWords(t *testing.T) {
	at := began.Add(time.Second)
	landed := func(code api.Code, paths ...string) *api.QueueOutcome {
		return &api.QueueOutcome{Code: code, Paths: paths}
	}
	for want, c := range map[string]struct {
		end  End
		work Work
		land *api.QueueOutcome
		of   api.TaskOutcome
	}{
		"merged as 2a89de9":                   {exit(0), Work{Commits: 2, Merging: true}, &api.QueueOutcome{MergeCommitSHA: "2a89de9f00"}, api.OutcomeMerged},
		"waiting":                             {exit(0), Work{Commits: 2, Merging: true}, nil, api.OutcomeWaiting},
		"conflict: src/cart.js":               {exit(0), Work{Commits: 1, Merging: true}, landed(api.CodeMergeConflict, "src/cart.js"), api.OutcomeConflict},
		"conflict: a, b, c and 1 more":        {exit(0), Work{Commits: 1, Merging: true}, landed(api.CodeMergeConflict, "a", "b", "c", "d"), api.OutcomeConflict},
		"check failed":                        {exit(0), Work{Commits: 1, Merging: true}, landed(api.CodeCheckFailed), api.OutcomeCheckFailed},
		"not merged (PROTECTED_PATH): .envrc": {exit(0), Work{Commits: 1, Merging: true}, landed(api.CodeProtectedPath, ".envrc"), api.OutcomeNotMerged},
		"uncommitted: 3 files":                {exit(0), Work{Uncommitted: 3, Merging: true}, landed(api.CodeNothingToMerge), api.OutcomeUncommitted},
		"uncommitted: 1 file":                 {exit(0), Work{Uncommitted: 1}, nil, api.OutcomeUncommitted},
		"nothing to merge":                    {exit(0), Work{Merging: true}, landed(api.CodeNothingToMerge), api.OutcomeNothing},
		"1 commit, not merged":                {exit(0), Work{Commits: 1}, nil, api.OutcomeNotMerged},
		"done":                                {exit(0), Work{NoGit: true}, nil, api.OutcomeDone},
		"failed (exit 1)":                     {exit(1), Work{Commits: 1}, nil, api.OutcomeFailed},
		"failed (as the agent says)":          {End{At: at, By: api.EndDone, Failed: true}, Work{}, nil, api.OutcomeFailed},
		"killed: memory":                      {End{At: at, By: api.EndExit, Killed: "memory"}, Work{}, nil, api.OutcomeKilled},
		"stopped":                             {End{At: at, By: api.EndStop}, Work{Commits: 1}, nil, api.OutcomeStopped},
		"stopped: its model budget was spent": {End{At: at, By: api.EndBudget, Message: "its model budget was spent"}, Work{Commits: 1}, nil, api.OutcomeStopped},
		"cancelled":                           {End{At: at, By: api.EndCancel}, Work{}, nil, api.OutcomeCancelled},
		"lost":                                {End{At: at, By: api.EndLost}, Work{}, nil, api.OutcomeLost},
	} {
		t.Run(want, func(t *testing.T) {
			task := running()
			require.Equal(t, "running", task.Result)
			require.True(t, Finish(&task, c.end))
			Measure(&task, c.work)
			if c.land != nil {
				Land(&task, *c.land, c.land.Code == "")
			}
			require.Equal(t, want, task.Result)
			require.Equal(t, c.of, task.Outcome)
			require.Equal(t, want != "waiting", task.Final)
		})
	}
}

// TestWhatTheAgentsOwnRulesRefusedIsInTheResult: a task without work did not do what it
// was to; one with work is merged, and says it.
func TestWhatTheAgentsOwnRulesRefusedIsInTheResult(t *testing.T) {
	did := func(n int, names ...string) *Did {
		return &Did{Steps: []api.Step{{Kind: api.StepRefused, Text: "x"}}, Total: 1, Report: &api.TaskReport{OwnRefusals: n, OwnRefused: names}}
	}
	for want, c := range map[string]struct {
		work Work
		land *api.QueueOutcome
		of   api.TaskOutcome
	}{
		"refused by its own rules: npm test":                    {Work{Did: did(1, "npm test")}, nil, api.OutcomeRefused},
		"refused by its own rules: npm test and 2 more":         {Work{Did: did(3, "npm test", "ls", "rm"), Merging: true}, &api.QueueOutcome{Code: api.CodeNothingToMerge}, api.OutcomeRefused},
		"merged as 2a89de9; refused by its own rules: npm test": {Work{Did: did(1, "npm test"), Commits: 1, Merging: true}, &api.QueueOutcome{MergeCommitSHA: "2a89de9f"}, api.OutcomeMerged},
		"uncommitted: 1 file; refused by its own rules":         {Work{Did: did(1), Uncommitted: 1}, nil, api.OutcomeUncommitted},
	} {
		t.Run(want, func(t *testing.T) {
			task := running()
			require.True(t, Finish(&task, exit(0)))
			Measure(&task, c.work)
			if c.land != nil {
				require.Equal(t, api.OutcomeWaiting, task.Outcome)
				Land(&task, *c.land, c.land.Code == "")
			}
			require.Equal(t, want, task.Result)
			require.Equal(t, c.of, task.Outcome)
			require.True(t, task.Final)
			require.True(t, Well(task))
			require.Equal(t, 1, task.StepCount)
		})
	}
	// What comes after the agent's own word that it is done counts, too.
	late := running()
	require.True(t, Finish(&late, End{At: began, By: api.EndDone}))
	Measure(&late, Work{})
	require.Equal(t, api.OutcomeNothing, late.Outcome)
	Note(&late, *did(1, "npm test"))
	require.Equal(t, api.OutcomeRefused, late.Outcome)
}

// TestTheLastRefusalsAreKept of more than a record has room for.
func TestTheLastRefusalsAreKept(t *testing.T) {
	refused := make([]api.WhyEntry, MaxRefused+5)
	for i := range refused {
		refused[i].Pid = len(refused) - i // the last one first
	}
	var tk api.Task
	Measure(&tk, Work{Refused: refused})
	require.Equal(t, refused[:MaxRefused], tk.Refused)
}

// TestATaskHasOneEnd: whatever is reported in whatever order and however often,
// the first end stays, and a merge stays a merge.
func TestATaskHasOneEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		task := running()
		var first *End
		merged := ""
		for i := range rapid.IntRange(1, 12).Draw(rt, "reports") {
			switch rapid.SampledFrom([]string{"end", "measure", "land"}).Draw(rt, "what") {
			case "end":
				e := End{At: began.Add(time.Duration(i) * time.Second), By: rapid.SampledFrom([]api.TaskEnd{api.EndExit, api.EndDone, api.EndComplete, api.EndStop, api.EndCancel, api.EndLost}).Draw(rt, "by"),
					Failed: rapid.Bool().Draw(rt, "failed")}
				if e.By == api.EndExit {
					code := rapid.IntRange(0, 2).Draw(rt, "code")
					e.Exit = &code
				}
				require.Equal(rt, first == nil, Finish(&task, e))
				if first == nil {
					first = &e
				}
			case "measure":
				if first != nil {
					Measure(&task, Work{Commits: rapid.IntRange(0, 2).Draw(rt, "commits"), Merging: rapid.Bool().Draw(rt, "merging")})
				}
			case "land":
				if first == nil {
					continue
				}
				if rapid.Bool().Draw(rt, "merged") {
					Land(&task, api.QueueOutcome{MergeCommitSHA: "0123456789"}, true)
					merged = "merged as 0123456"
				} else {
					Land(&task, api.QueueOutcome{Code: api.CodeNothingToMerge}, false)
				}
			}
			if first != nil {
				require.Equal(rt, first.By, task.EndedBy)
				require.True(rt, task.Ended.Equal(first.At))
				require.Equal(rt, api.TaskEnded, task.State)
				require.NotContains(rt, []api.TaskOutcome{api.OutcomeRunning, api.OutcomeQueued, ""}, task.Outcome)
				require.NotEmpty(rt, task.Result)
			}
			if merged != "" {
				require.Equal(rt, merged, task.Result)
			}
		}
	})
}

func TestIDs(t *testing.T) {
	agent, n, err := ParseID(ID("a-1", 12))
	require.NoError(t, err)
	require.Equal(t, "a-1", agent)
	require.Equal(t, 12, n)
	for _, bad := range []string{"", "a1", "a1.", "a1.0", "a1.-1", "a1.01", "a1.+1", "../x.1", "A.1", "a1.1.1", ".1"} {
		_, _, err := ParseID(bad)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), bad)
	}
}

// TestADenialIsThePersonsInTheResult: what a person or a rule of the role denied names them, and not the agent's own rules.
func TestADenialIsThePersonsInTheResult(t *testing.T) {
	tk := api.Task{State: api.TaskRunning}
	Finish(&tk, exit(0))
	Measure(&tk, Work{Refused: []api.WhyEntry{
		{Op: "tool", Path: "bash make deploy/x", Code: api.CodeNotApproved, By: "ann", Reason: "not today"},
		{Op: "open", Path: "secret", Code: api.CodeUndeclaredRead},
		{Op: "tool", Path: "bash rm x", Code: api.CodeNotApproved, By: "auto_deny of the role", Count: 3},
	}})
	require.Equal(t, "nothing to merge; ann denied bash make deploy/x: not today and 3 more", tk.Result)
	require.Equal(t, api.OutcomeNothing, tk.Outcome)
}
