package task

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
)

// ID is the name of an agent's task number n. No agent's name has a dot.
func ID(agent string, n int) string { return agent + "." + strconv.Itoa(n) }

// ParseID takes an ID apart.
func ParseID(id string) (agent string, n int, err error) {
	agent, number, ok := strings.Cut(id, ".")
	n, perr := strconv.Atoi(number)
	if !ok || perr != nil || n < 1 || number != strconv.Itoa(n) || api.CheckName(agent) != nil {
		return "", 0, api.Errorf(api.CodeBadRequest, "task %q: must be the name of an agent, a dot and a number, such as claude.3", api.Shorten(id, 64)).
			WithHint("polisctl tasks lists them")
	}
	return agent, n, nil
}

// Begin notes that the task runs.
func Begin(t *api.Task, now time.Time, command []string, base string) {
	t.State, t.Began, t.Command, t.Base = api.TaskRunning, &now, command, base
	settle(t)
}

// End is how a task ended.
type End struct {
	At time.Time
	By api.TaskEnd
	// Exit is the exit code of its program, Killed what that was killed for.
	Exit   *int
	Killed string
	// Failed and Message are the agent's own words, or why it was lost.
	Failed  bool
	Message string
	// Cleanup is what the agent reported about work that is only there.
	Cleanup api.CleanupStatus
	// Output is where its output ends; 0: nobody knows.
	Output api.OutputRange
	// Interrupted is what is noted of a task that was lost and can be retried.
	Interrupted api.TaskInterruption
}

// maxMessage bounds an agent's message about its end, in bytes.
const maxMessage = 1000

// Finish ends the task, unless it has ended: the first end counts.
func Finish(t *api.Task, e End) (first bool) {
	if t.State == api.TaskEnded {
		return false
	}
	t.State, t.Ended, t.EndedBy, t.ExitCode, t.Killed, t.Failed, t.Message = api.TaskEnded, &e.At, e.By, e.Exit, e.Killed, e.Failed, api.Shorten(e.Message, maxMessage)
	t.CleanupStatus, t.Interrupted = e.Cleanup, e.Interrupted
	if e.Interrupted == api.InterruptedNew {
		t.Interruptions++
	}
	if t.Began != nil {
		t.Seconds = max(e.At.Sub(*t.Began), 0).Round(time.Millisecond).Seconds()
	}
	t.Final = t.Began == nil || e.By == api.EndLost // there is nothing to count, or nobody who does
	if e.Output.To > 0 {
		t.Output = &e.Output
	}
	settle(t)
	return true
}

// Well reports whether a task ended so that its branch may be merged.
func Well(t api.Task) bool {
	switch {
	case t.State != api.TaskEnded || t.Failed || t.Killed != "":
		return false
	case t.EndedBy == api.EndExit:
		return t.ExitCode != nil && *t.ExitCode == 0
	}
	return t.EndedBy == api.EndDone || t.EndedBy == api.EndComplete
}

// Work is what a task left in its worktree.
type Work struct {
	Head                 string
	Commits, Uncommitted int
	// Elsewhere is committed work that a merge does not contain.
	Elsewhere []api.BranchWork
	// Use and Refused are what it used and was refused, the last refusal first; may be nil.
	Use     *api.TaskUse
	Refused []api.WhyEntry
	// Did is what it did; may be nil.
	Did *Did
	// Network is who dropped the agent's packets during the task; "" if nobody did.
	Network string
	// Merging: the branch is put in the merge queue. NoGit: there is none.
	Merging, NoGit bool
}

// Did is what a task did, as its program and polis saw it.
type Did struct {
	Steps  []api.Step
	Total  int
	Report *api.TaskReport
	Raw    *api.OutputRange
}

// Note notes what a task did, also one that has ended: an agent may report more after it
// said that it is done.
func Note(t *api.Task, d Did) {
	t.Steps, t.StepCount, t.Raw = d.Steps, d.Total, d.Raw
	if d.Report != nil {
		t.Report = d.Report
	}
	settle(t)
}

// Measure notes what an ended task left. A result of its branch that is already recorded stays.
func Measure(t *api.Task, w Work) {
	t.Head, t.Commits, t.Uncommitted, t.Elsewhere = w.Head, w.Commits, w.Uncommitted, w.Elsewhere
	if w.Use != nil {
		t.Use = w.Use
	}
	if len(w.Refused) > 0 {
		t.Refused = w.Refused[:min(len(w.Refused), MaxRefused)]
	}
	if w.Did != nil {
		Note(t, *w.Did)
	}
	t.Network = w.Network
	switch {
	case t.Outcome == api.OutcomeMerged || t.Code != "" || !Well(*t):
	case w.NoGit:
		t.Outcome = api.OutcomeDone
	case w.Merging:
		t.Outcome = api.OutcomeWaiting
	case w.Commits > 0 || len(w.Elsewhere) > 0:
		t.Outcome = api.OutcomeNotMerged
	case w.Uncommitted > 0:
		t.Outcome = api.OutcomeUncommitted
	default:
		t.Outcome = api.OutcomeNothing
	}
	t.Final = t.Outcome != api.OutcomeWaiting
	settle(t)
}

// Land notes the result of the branch in the merge queue. A merge that
// is recorded stays recorded.
func Land(t *api.Task, out api.QueueOutcome, merged bool) {
	if t.Outcome == api.OutcomeMerged {
		if merged { // a later merge has what that one left
			t.Elsewhere = out.Elsewhere
			settle(t)
		}
		return
	}
	t.Final = true
	t.Code, t.Paths, t.Log, t.MergeCommitSHA = out.Code, out.Paths[:min(len(out.Paths), maxPaths)], out.Log, ""
	t.Elsewhere = out.Elsewhere
	switch {
	case merged:
		t.Outcome, t.MergeCommitSHA = api.OutcomeMerged, out.MergeCommitSHA
	case out.Code == api.CodeMergeConflict:
		t.Outcome = api.OutcomeConflict
	case out.Code == api.CodeCheckFailed:
		t.Outcome = api.OutcomeCheckFailed
	case out.Code == api.CodeNothingToMerge && len(t.Elsewhere) > 0:
		t.Outcome = api.OutcomeNotMerged
	case out.Code == api.CodeNothingToMerge && t.Uncommitted > 0:
		t.Outcome = api.OutcomeUncommitted
	case out.Code == api.CodeNothingToMerge:
		t.Outcome = api.OutcomeNothing
	default:
		t.Outcome = api.OutcomeNotMerged
	}
	settle(t)
}

// MaxRefused bounds the refusals of a record.
const MaxRefused = 20

// maxPaths bounds the paths of a record, maxNamed the paths that its result names.
const (
	maxPaths = 100
	maxNamed = 3
	maxCall  = 80 // bytes of a call that a result names
)

// settle brings outcome and result in line with the rest of the record.
func settle(t *api.Task) {
	switch {
	case t.Via != "":
		t.State = ""
		return
	case t.State == api.TaskQueued:
		t.Outcome = api.OutcomeQueued
	case t.State == api.TaskRunning:
		t.Outcome = api.OutcomeRunning
	case t.Outcome == api.OutcomeMerged:
	case !Well(*t):
		t.Outcome = badOutcome(*t)
	case t.Outcome == api.OutcomeRunning || t.Outcome == api.OutcomeQueued:
		t.Outcome = api.OutcomeWaiting // until it is measured
	}
	if t.Outcome == api.OutcomeNothing && ownRefusals(*t) > 0 {
		t.Outcome = api.OutcomeRefused
	}
	t.Result = result(*t)
	if t.State == api.TaskEnded && len(t.Elsewhere) > 0 && !t.Stranded() {
		t.Result += "; " + api.BranchesText(t.Elsewhere, "polisctl tasks show "+t.ID)
	}
	if t.State == api.TaskEnded && ownRefusals(*t) > 0 && t.Outcome != api.OutcomeRefused {
		t.Result += "; " + refused(*t)
	}
	if text := denied(*t); t.State == api.TaskEnded && text != "" {
		t.Result += "; " + text
	}
	if t.State == api.TaskEnded && t.Network != "" && !Well(*t) {
		t.Result += "; without network: " + t.Network
	}
}

func badOutcome(t api.Task) api.TaskOutcome {
	switch {
	case t.Killed != "":
		return api.OutcomeKilled
	case t.EndedBy == api.EndStop || t.EndedBy == api.EndBudget:
		return api.OutcomeStopped
	case t.EndedBy == api.EndCancel:
		return api.OutcomeCancelled
	case t.EndedBy == api.EndLost:
		return api.OutcomeLost
	case t.EndedBy == api.EndSaid:
		return api.OutcomeDelivered
	}
	return api.OutcomeFailed
}

// result is the outcome in words.
func result(t api.Task) string {
	switch t.Outcome {
	case api.OutcomeQueued:
		return "queued"
	case api.OutcomeMerged:
		return "merged as " + t.MergeCommitSHA[:min(len(t.MergeCommitSHA), 7)]
	case api.OutcomeConflict:
		return "conflict: " + named(t.Paths)
	case api.OutcomeCheckFailed:
		return "check failed"
	case api.OutcomeNotMerged:
		if t.Stranded() {
			return api.BranchesText(t.Elsewhere, "polisctl tasks show "+t.ID)
		}
		if t.Code != "" {
			return fmt.Sprintf("not merged (%s): %s", t.Code, named(t.Paths))
		}
		return api.Count(t.Commits, "commit") + ", not merged"
	case api.OutcomeUncommitted:
		return "uncommitted: " + api.Count(t.Uncommitted, "file")
	case api.OutcomeNothing:
		return "nothing to merge"
	case api.OutcomeRefused:
		return refused(t)
	case api.OutcomeFailed:
		if t.ExitCode != nil {
			return fmt.Sprintf("failed (exit %d)", *t.ExitCode)
		}
		return "failed (as the agent says)"
	case api.OutcomeStopped:
		if t.EndedBy == api.EndBudget {
			return "stopped: " + api.Shorten(t.Message, 200)
		}
	case api.OutcomeKilled:
		return "killed: " + t.Killed
	case api.OutcomeDelivered:
		if t.Said != nil {
			return "delivered to " + t.Said.To
		}
	case api.OutcomeLost:
		if t.Message != "" {
			return "lost: " + api.Shorten(t.Message, 200)
		}
	}
	return string(t.Outcome)
}
