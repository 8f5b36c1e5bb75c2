package cleanup

import (
	"fmt"
	"time"

	"polis/daemon/api"
)

// State is what the records and the shim report about an agent.
type State struct {
	Agent, Workspace string
	// Created, Generation and Task identify the incarnation: a decision about one is no decision
	// about the next.
	Created    time.Time
	Generation uint64
	Status     api.Status
	Ephemeral  bool
	// Task is the last task, Final that nothing more becomes of it by itself.
	Task    string
	Final   bool
	Outcome api.TaskOutcome
	// Reported is what the agent reported with the task's end.
	Reported api.CleanupStatus
	// InTask: a task is not over. Queued are the tasks that wait, Merging that its branch waits in
	// the merge queue.
	InTask  bool
	Queued  int
	Merging bool
	// Sessions are terminals and commands of people that are open in it, Leftovers processes that its last
	// command left running; LeftoversKept: its rules keep those.
	Sessions      int
	Leftovers     int
	LeftoversKept bool
	// Err is why the rest is not known.
	Err error
}

// Same reports whether two states are of one incarnation that nothing happened to in between.
func (s State) Same(o State) bool {
	return s.Agent == o.Agent && s.Workspace == o.Workspace && s.Created.Equal(o.Created) && s.Generation == o.Generation && s.Task == o.Task && s.Status == o.Status
}

// Over reports whether the work of an agent has ended, with the reason. An agent that is used, that
// may still get a result, or that never had work, is not over: idle is not dead.
func Over(s State) (why string, over bool) {
	switch {
	case !s.Ephemeral, s.Err != nil, s.InTask, s.Queued > 0, s.Merging, s.Sessions > 0, s.Leftovers > 0 && s.LeftoversKept:
		return "", false
	case s.Status != api.StatusIdle && s.Status != api.StatusStopped && s.Status != api.StatusError:
		return "", false
	case s.Task != "" && s.Final:
		return fmt.Sprintf("its task %s is over (%s)", s.Task, s.Outcome), true
	case s.Status == api.StatusError:
		return "its sandbox has failed", true
	}
	return "", false
}

// Measured is what git reports of an agent's work.
type Measured struct {
	Uncommitted int  // files in no commit
	Stash       bool // it has a stash of its own
	// Unmerged are the commits of its HEAD and branch that the target does not have.
	Unmerged int
	Target   string
	// Remote is the remote whose default branch has all of those; empty if none has. Asked are the
	// remotes that were queried, Silent those of them that did not answer.
	Remote        string
	Asked, Silent []string
	// Parent is the agent that made this one, if its branch has all of those; else empty. What it
	// has is brought to the target with its own work.
	Parent string
	// Err is why it could not be measured.
	Err error
}

// Status returns the worst that is true of the work.
func (m Measured) Status() api.CleanupStatus {
	switch {
	case m.Err != nil:
		return api.CleanupUnknown
	case m.Unmerged > 0 && m.Remote == "" && m.Parent == "":
		return api.CleanupUnpushed
	case m.Stash:
		return api.CleanupStash
	case m.Uncommitted > 0:
		return api.CleanupUncommitted
	}
	return api.CleanupClean
}

// Decide returns what is to be done about an agent whose work has ended.
func Decide(s State, why string, m Measured) api.Cleanup {
	c := api.Cleanup{Agent: s.Agent, Workspace: s.Workspace, Task: s.Task, Why: why, Reported: s.Reported, Measured: m.Status(), Evidence: evidence(s, m)}
	c.Status = c.Measured.Worse(c.Reported)
	switch c.Status {
	case api.CleanupClean:
		c.Action = api.CleanupRemove
	case api.CleanupUncommitted, api.CleanupStash:
		c.Action = api.CleanupKeep
	default:
		c.Action = api.CleanupEscalate
	}
	if c.Action != api.CleanupRemove {
		c.Next = fmt.Sprintf("polisctl agents diff %s shows its work; polisctl merge %s brings the commits home; polisctl agents remove --force %s puts everything in the trash", s.Agent, s.Agent, s.Agent)
	}
	return c
}

func evidence(s State, m Measured) []string {
	out := []string{}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Reported != "" {
		say("the agent reported %s", s.Reported)
	}
	if m.Err != nil {
		say("its work could not be measured: %v", m.Err)
		return out
	}
	if m.Uncommitted > 0 {
		say("%s in no commit", api.Count(m.Uncommitted, "file"))
	}
	if m.Stash {
		say("it has a stash")
	}
	switch {
	case m.Unmerged > 0 && m.Parent != "":
		say("%s not in %s, all of them in the branch of its parent %s", api.Count(m.Unmerged, "commit"), m.Target, m.Parent)
	case m.Unmerged > 0 && m.Remote != "":
		say("%s not in %s, all of them in the default branch of remote %s", api.Count(m.Unmerged, "commit"), m.Target, m.Remote)
	case m.Unmerged > 0:
		say("%s not in %s and in no default branch of a remote (%s queried)", api.Count(m.Unmerged, "commit"), m.Target, api.Count(len(m.Asked), "remote"))
		for _, r := range m.Silent {
			say("remote %s did not answer", r)
		}
	}
	if len(out) == 0 || len(out) == 1 && s.Reported == api.CleanupClean {
		if m.Target == "" {
			say("it has no work of its own")
		} else {
			say("everything is in %s", m.Target)
		}
	}
	return out
}
