package cleanup

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func over() State {
	return State{Agent: "a", Workspace: "w", Generation: 1, Status: api.StatusIdle, Ephemeral: true, Task: "a.1", Final: true, Outcome: api.OutcomeMerged}
}

func TestWhichWorkIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		over   bool
	}{
		"its task was merged":                 {func(*State) {}, true},
		"its agent was stopped":               {func(s *State) { s.Status = api.StatusStopped }, true},
		"its shim died":                       {func(s *State) { s.Status, s.Task, s.Final = api.StatusError, "", false }, true},
		"its last command left a server":      {func(s *State) { s.Leftovers = 1 }, true},
		"an agent that is not ephemeral":      {func(s *State) { s.Ephemeral = false }, false},
		"one that is not and whose shim died": {func(s *State) { s.Ephemeral, s.Status = false, api.StatusError }, false},
		"idle, without a task so far":         {func(s *State) { s.Task, s.Final = "", false }, false},
		"stopped, without a task so far":      {func(s *State) { s.Task, s.Final, s.Status = "", false, api.StatusStopped }, false},
		"its task runs":                       {func(s *State) { s.InTask = true }, false},
		"its program runs":                    {func(s *State) { s.Status = api.StatusRunning }, false},
		"it is being made":                    {func(s *State) { s.Status = api.StatusCreating }, false},
		"another task waits":                  {func(s *State) { s.Queued = 1 }, false},
		"its branch waits to be merged":       {func(s *State) { s.Merging = true }, false},
		"its result is not final":             {func(s *State) { s.Final = false }, false},
		"a person is in it":                   {func(s *State) { s.Sessions = 1 }, false},
		"its rules keep what is left running": {func(s *State) { s.Leftovers, s.LeftoversKept = 1, true }, false},
		"it could not be observed":            {func(s *State) { s.Err = errors.New("no answer") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := over()
			c.change(&s)
			why, got := Over(s)
			require.Equal(t, c.over, got)
			require.Equal(t, c.over, why != "")
		})
	}
}

func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		reported api.CleanupStatus
		m        Measured
		status   api.CleanupStatus
		action   string
		evidence string
	}{
		"nothing is only there":                {"", Measured{Target: "main"}, api.CleanupClean, api.CleanupRemove, "everything is in main"},
		"reported clean, and is":               {api.CleanupClean, Measured{Target: "main"}, api.CleanupClean, api.CleanupRemove, "the agent reported clean; everything is in main"},
		"without git":                          {"", Measured{}, api.CleanupClean, api.CleanupRemove, "it has no work of its own"},
		"in the default branch of a remote":    {"", Measured{Unmerged: 2, Target: "main", Remote: "fork"}, api.CleanupClean, api.CleanupRemove, "2 commits not in main, all of them in the default branch of remote fork"},
		"in its parent's branch":               {"", Measured{Unmerged: 2, Target: "main", Parent: "alice"}, api.CleanupClean, api.CleanupRemove, "2 commits not in main, all of them in the branch of its parent alice"},
		"changed files":                        {"", Measured{Uncommitted: 3, Target: "main"}, api.CleanupUncommitted, api.CleanupKeep, "3 files in no commit"},
		"reported clean, and changed files":    {api.CleanupClean, Measured{Uncommitted: 1, Target: "main"}, api.CleanupUncommitted, api.CleanupKeep, ""},
		"reported uncommitted, measured clean": {api.CleanupUncommitted, Measured{Target: "main"}, api.CleanupUncommitted, api.CleanupKeep, ""},
		"a stash":                              {"", Measured{Stash: true, Uncommitted: 1}, api.CleanupStash, api.CleanupKeep, "it has a stash"},
		"reported a stash":                     {api.CleanupStash, Measured{Uncommitted: 1}, api.CleanupStash, api.CleanupKeep, ""},
		"commits that are nowhere else":        {"", Measured{Unmerged: 1, Target: "main", Stash: true}, api.CleanupUnpushed, api.CleanupEscalate, "1 commit not in main and in no default branch of a remote (0 remotes queried)"},
		"a remote that did not answer":         {"", Measured{Unmerged: 1, Asked: []string{"o"}, Silent: []string{"o"}}, api.CleanupUnpushed, api.CleanupEscalate, "remote o did not answer"},
		"reported clean, commits nowhere else": {api.CleanupClean, Measured{Unmerged: 1}, api.CleanupUnpushed, api.CleanupEscalate, ""},
		"reported unpushed, measured clean":    {api.CleanupUnpushed, Measured{}, api.CleanupUnpushed, api.CleanupEscalate, ""},
		"not measured":                         {api.CleanupClean, Measured{Err: errors.New("no git")}, api.CleanupUnknown, api.CleanupEscalate, "could not be measured: no git"},
	} {
		t.Run(name, func(t *testing.T) {
			s := over()
			s.Reported = c.reported
			why, _ := Over(s)
			d := Decide(s, why, c.m)
			require.Equal(t, c.status, d.Status)
			require.Equal(t, c.action, d.Action)
			require.NotEmpty(t, d.Evidence)
			require.Contains(t, d.Text(), c.evidence)
			require.Equal(t, c.action == api.CleanupRemove, d.Next == "")
		})
	}
}

func TestTheOrderOfSeverityIsTheSeeds(t *testing.T) {
	order := []api.CleanupStatus{"", api.CleanupClean, api.CleanupUncommitted, api.CleanupStash, api.CleanupUnpushed, api.CleanupUnknown}
	for i, a := range order {
		for j, b := range order {
			require.Equal(t, order[max(i, j)], a.Worse(b))
		}
	}
	for _, s := range order[:5] {
		require.NoError(t, api.CheckCleanup(s))
	}
	for _, s := range []api.CleanupStatus{api.CleanupUnknown, "Clean", "has_everything", "\x00"} {
		require.Equal(t, api.CodeBadRequest, api.CodeOf(api.CheckCleanup(s)))
	}
}

// Whatever is reported and measured: an agent goes only if nothing of it is only there.
func TestOnlyWhatIsElsewhereGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Measured{Uncommitted: rapid.IntRange(0, 2).Draw(t, "uncommitted"), Stash: rapid.Bool().Draw(t, "stash"), Unmerged: rapid.IntRange(0, 2).Draw(t, "unmerged"),
			Remote: rapid.SampledFrom([]string{"", "origin"}).Draw(t, "remote"), Parent: rapid.SampledFrom([]string{"", "alice"}).Draw(t, "parent"), Target: "main"}
		if rapid.IntRange(0, 5).Draw(t, "fails") == 0 {
			m.Err = errors.New("git")
		}
		s := over()
		s.Created = time.Unix(1, 0)
		s.Reported = rapid.SampledFrom([]api.CleanupStatus{"", api.CleanupClean, api.CleanupUncommitted, api.CleanupStash, api.CleanupUnpushed}).Draw(t, "reported")
		d := Decide(s, "it is over", m)
		safe := m.Err == nil && m.Uncommitted == 0 && !m.Stash && (m.Unmerged == 0 || m.Remote != "" || m.Parent != "") && slices.Contains([]api.CleanupStatus{"", api.CleanupClean}, s.Reported)
		require.Equal(t, safe, d.Action == api.CleanupRemove)
		require.Equal(t, d.Status, d.Measured.Worse(d.Reported))
	})
}
