package main

import (
	"bytes"
	"os/user"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestUsersAreNamed(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	require.Equal(t, me.Username, who("user:"+me.Uid))
	require.Equal(t, "answer ann.k3f9q2ab of "+me.Username, who("answer ann.k3f9q2ab of user:"+me.Uid))
	for _, by := range []string{"user:4294967294", "superuser:0", "user:0 and more", "user:unknown", "user:", "ann", "task", ""} {
		require.Equal(t, by, who(by))
	}
}

func TestTheEndOfATaskInOneLine(t *testing.T) {
	code := func(n int) *int { return &n }
	for want, task := range map[string]api.Task{
		"ann.3 ended well in 1s: 1 commit, not merged (auto-merge is off)": {EndedBy: api.EndExit, ExitCode: code(0), Seconds: 1, Commits: 1, Outcome: api.OutcomeNotMerged, Result: "1 commit, not merged"},
		"ann.3 ended well in 1s: 2 commits, 1 uncommitted file, not merged (auto-merge is off); refused 1 call": {
			EndedBy: api.EndExit, ExitCode: code(0), Seconds: 1, Commits: 2, Uncommitted: 1, Outcome: api.OutcomeNotMerged, Result: "2 commits, not merged; refused 1 call"},
		"ann.3 ended well in 41s: 2 commits, merged as 2a89de9":                                     {EndedBy: api.EndExit, ExitCode: code(0), Seconds: 41, Commits: 2, Outcome: api.OutcomeMerged, Result: "merged as 2a89de9"},
		"ann.3 ended with exit code 2 after 3s: 0 commits, failed (exit 2)":                         {EndedBy: api.EndExit, ExitCode: code(2), Seconds: 3, Outcome: api.OutcomeFailed, Result: "failed (exit 2)"},
		"ann.3 reported its end after 3s: 1 commit, not merged (PROTECTED_PATH): a":                 {EndedBy: api.EndDone, Seconds: 3, Commits: 1, Outcome: api.OutcomeNotMerged, Code: api.CodeProtectedPath, Result: "not merged (PROTECTED_PATH): a"},
		"ann.3 reported a failure after 3s: 0 commits, failed (as the agent says)":                  {EndedBy: api.EndComplete, Failed: true, Seconds: 3, Outcome: api.OutcomeFailed, Result: "failed (as the agent says)"},
		"ann.3 was cancelled after 3s: 0 commits, cancelled":                                        {EndedBy: api.EndCancel, Seconds: 3, Outcome: api.OutcomeCancelled, Result: "cancelled"},
		"ann.3 ended well in 3s: 1 commit, conflict: a, b, c and 1 more: polisctl tasks show ann.3": {EndedBy: api.EndExit, ExitCode: code(0), Seconds: 3, Commits: 1, Outcome: api.OutcomeConflict, Result: "conflict: a, b, c and 1 more"},
		"ann.3 ended after 3s: 0 commits, lost":                                                     {EndedBy: api.EndExit, Seconds: 3, Outcome: api.OutcomeLost, Result: "lost"},
	} {
		task.ID = "ann.3"
		require.Equal(t, want, endLine(task))
	}
}

func TestAnswersInOneLine(t *testing.T) {
	v := api.Approval{ID: "ann.k3f9q2ab", Agent: "ann", Role: "worker", Remember: "Bash(make)"}
	for want, req := range map[string]api.AnswerRequest{
		"approved ann.k3f9q2ab":                                               {Verdict: api.VerdictApprove, Scope: api.ScopeOnce},
		"approved ann.k3f9q2ab, and the budget is raised by 2.5":              {Verdict: api.VerdictApprove, Raise: 2.5},
		"approved ann.k3f9q2ab, and Bash(make) for the rest of its task":      {Verdict: api.VerdictApprove, Scope: api.ScopeTask},
		"denied ann.k3f9q2ab: not today":                                      {Verdict: api.VerdictDeny, Reason: "not today"},
		"denied ann.k3f9q2ab: no, and Bash(make) for role worker from now on": {Verdict: api.VerdictDeny, Reason: "no", Scope: api.ScopeRole},
		"denied ann.k3f9q2ab, and its task ends":                              {Verdict: api.VerdictAbort},
	} {
		require.Equal(t, want, answeredText(v, req))
	}
}

// TestWaitingAgentsComeFirst: those that wait for a person. The others stay in their order, and so do names and JSON.
func TestWaitingAgentsComeFirst(t *testing.T) {
	agents := []api.Agent{{Name: "b"}, {Name: "a", Waiting: &api.Waiting{For: api.WaitingLease}}, {Name: "z", Waiting: &api.Waiting{For: api.WaitingThaw}}, {Name: "q", Waiting: &api.Waiting{For: api.WaitingApproval}}}
	v := agentsView(agents)
	var b bytes.Buffer
	v.human(&page{w: &b})
	require.Regexp(t, `(?s)\nz .*\nq .*\nb .*\na `, b.String())
	require.Equal(t, []string{"b", "a", "z", "q"}, v.names)
	require.Equal(t, "b", agents[0].Name)
}
