package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/merge"
	"polis/internal/failpoint"
)

// maxTries bounds how often a batch is merged again because another change moved the target
// meanwhile.
const maxTries = 8

const lockPause = 200 * time.Millisecond

// Merges is what a BatchMerger needs of package merge.
type Merges interface {
	Stack(ctx context.Context, reqs []merge.Request) (merge.Stack, error)
	Advance(ctx context.Context, s merge.Stack, commit string) error
	// Merged finds the merge of a branch that is in the target already.
	Merged(ctx context.Context, branch string) (string, error)
	UpdateCheckout(ctx context.Context) (merge.CheckoutUpdate, error)
}

// Checker runs the workspace's check command on the files of a commit. A command that fails is an
// error with code CHECK_FAILED; any other error means that it could not be run.
type Checker interface {
	Check(ctx context.Context, commit, label string) (log string, err error)
}

// Job is an entry together with what to merge.
type Job struct {
	Entry   api.QueueEntry
	Request merge.Request
	// Known is the recorded merge commit of the agent; may be empty.
	Known string
}

// Outcome is the result of a Job.
type Outcome struct {
	Job    Job
	Result merge.Result // the merge
	Log    string       // file with the output of the check
	Check  string       // the command of the check; "" if only git hooks ran
	Err    error
	// Project and Note are about the user's checkout.
	Project, Note string
}

// Report returns the outcome as the API shows it. One that failed has no commit, and the paths of its
// error.
func (o Outcome) Report() api.QueueOutcome {
	out := api.QueueOutcome{MergeCommitSHA: o.Result.Commit, Paths: o.Result.Paths, Log: o.Log, Project: o.Project, Note: o.Note,
		Branch: o.Job.Request.Branch, Elsewhere: o.Job.Request.Elsewhere}
	if o.Err == nil {
		return out
	}
	out.MergeCommitSHA = ""
	if paths, ok := api.AsError(o.Err).Details["paths"].([]string); ok {
		out.Paths = paths
	}
	return out
}

// BatchMerger merges batches.
type BatchMerger struct {
	Merges Merges
	Check  Checker // nil: no check
	// Command is what Check runs; "" if that is only git hooks.
	Command string
	// Patience is how long the lock is requested again while it is not available.
	Patience time.Duration
	// Pause waits before attempt number try+1, after another change of the target; merge.Backoff
	// if nil.
	Pause func(ctx context.Context, try int) error
	// Report is called when the state of jobs changes. May be nil.
	Report func(jobs []Job, s api.QueueState)
}

// Land merges jobs in their order, as many at once as possible. Each job has an outcome, unless
// ctx ended first: unfinished jobs are then missing.
func (l *BatchMerger) Land(ctx context.Context, jobs []Job) []Outcome {
	var done []Outcome
	fail := func(js []Job, err error) {
		for _, j := range js {
			done = append(done, Outcome{Job: j, Err: err})
		}
	}
	moved := false
	for try := 0; len(jobs) > 0 && ctx.Err() == nil; {
		l.say(jobs, api.QueueMerging)
		var stack merge.Stack
		err := l.patient(ctx, func() (err error) {
			stack, err = l.Merges.Stack(ctx, requests(jobs))
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				fail(jobs, err)
			}
			break
		}
		failpoint.Hit("queue:merged")
		good, bad := l.sift(ctx, jobs, stack)
		v := l.judge(ctx, good)
		failpoint.Hit("queue:checked")
		if v.err != nil && ctx.Err() != nil {
			break
		}
		if v.pass > 0 {
			// They stay so until their outcome is recorded: see Worker.Settled.
			l.say(jobsOf(good[:v.pass]), api.QueueMerging)
			err := l.patient(ctx, func() error { return l.Merges.Advance(ctx, stack, good[v.pass-1].Result.Commit) })
			if errors.Is(err, git.ErrRefMoved) && try < maxTries {
				try++
				if l.pause(ctx, try) != nil {
					break
				}
				continue
			}
			if err != nil {
				if ctx.Err() == nil || api.CodeOf(err) == api.CodeRefConflict {
					fail(jobs, err)
				}
				break
			}
			moved, try = true, 0
			for i := range good[:v.pass] {
				good[i].Log, good[i].Check = v.passed, l.Command
			}
			done = append(done, good[:v.pass]...)
		}
		if v.err != nil {
			blamed := good[v.pass:]
			if api.CodeOf(v.err) == api.CodeCheckFailed {
				blamed = blamed[:1]
			}
			for _, o := range blamed {
				done = append(done, Outcome{Job: o.Job, Log: v.log, Check: l.ran(v.err), Err: explained(v.err, v.log, o.Job.Entry.Agent)})
			}
			if api.CodeOf(v.err) != api.CodeCheckFailed {
				done = append(done, bad...)
				break
			}
			// The others are merged without it. A conflict may have been with it.
			jobs = without(jobs, done)
			continue
		}
		done = append(done, bad...)
		break
	}
	for _, o := range done {
		moved = moved || o.Err == nil // one may have been merged by a daemon that died
	}
	if moved {
		l.along(context.WithoutCancel(ctx), done)
	}
	return done
}

// ran is the command of a check that ended with an error; "" if a git hook refused before it.
func (l *BatchMerger) ran(err error) string {
	if api.AsError(err).Details[api.DetailHook] != nil {
		return ""
	}
	return l.Command
}

// explained adds to the error of a check that failed where its output is.
func explained(err error, log, agent string) error {
	if log == "" || api.CodeOf(err) != api.CodeCheckFailed {
		return err
	}
	e := *api.AsError(err)
	e.Message = err.Error() // with what could not be removed after the check, if anything
	return e.WithHint("polisctl queue log %[1]s prints its output; polisctl merge %[1]s --no-check merges without it", agent)
}

// patient repeats what the lock table refuses temporarily: after a restart, leases are reclaimed
// first.
func (l *BatchMerger) patient(ctx context.Context, do func() error) error {
	end := time.Now().Add(l.Patience)
	for {
		err := do()
		code := api.CodeOf(err)
		if err == nil || code != api.CodeLockdUnavailable && code != api.CodeBranchLockTimeout || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockPause):
		}
	}
}

// sift separates what can be merged from what cannot, and from what is merged already.
func (l *BatchMerger) sift(ctx context.Context, jobs []Job, stack merge.Stack) (good, bad []Outcome) {
	for i, it := range stack.Items {
		o := Outcome{Job: jobs[i], Result: it.Result, Err: it.Err}
		if api.CodeOf(it.Err) == api.CodeNothingToMerge && it.Err != nil {
			// A daemon that died before it recorded it merged it, or a person by hand.
			if commit, err := l.Merges.Merged(ctx, cmp.Or(it.Request.Commit, it.Request.Branch)); err == nil && commit != "" && commit != jobs[i].Known {
				o.Err, o.Result = nil, merge.Result{Commit: commit, Target: stack.Target, Branch: it.Request.Branch}
				bad = append(bad, o)
				continue
			}
		}
		if o.Err == nil {
			good = append(good, o)
		} else {
			bad = append(bad, o)
		}
	}
	return good, bad
}

// verdict is how many, from the first, passed together; err is that of the next one.
type verdict struct {
	pass   int
	passed string // what the check of those printed
	log    string // what the check that failed printed
	err    error
}

// judge checks the whole batch. If that fails, bisection finds the first job that fails.
func (l *BatchMerger) judge(ctx context.Context, good []Outcome) verdict {
	if l.Check == nil || len(good) == 0 || good[0].Job.Entry.NoCheck {
		return verdict{pass: len(good)}
	}
	jobs := jobsOf(good)
	l.say(jobs, api.QueueChecking)
	check := func(n int) (string, error) {
		names := make([]string, 0, n)
		for _, j := range jobs[:n] {
			names = append(names, j.Entry.Agent)
		}
		return l.Check.Check(ctx, good[n-1].Result.Commit, strings.Join(names, " "))
	}
	log, err := check(len(good))
	if err == nil {
		return verdict{pass: len(good), passed: log}
	}
	if api.CodeOf(err) != api.CodeCheckFailed {
		return verdict{log: log, err: err}
	}
	v, low, high := verdict{log: log, err: err}, 0, len(good)
	for high-low > 1 {
		mid := (low + high) / 2
		log, err := check(mid)
		switch {
		case err == nil:
			low, v.passed = mid, log
		case api.CodeOf(err) == api.CodeCheckFailed:
			high, v.log, v.err = mid, log, err
		default:
			return verdict{pass: low, passed: v.passed, log: log, err: err}
		}
	}
	v.pass = low
	return v
}

// along updates the user's checkout, once for the batch.
func (l *BatchMerger) along(ctx context.Context, done []Outcome) {
	a, err := l.Merges.UpdateCheckout(ctx)
	project, note := a.State()
	if err != nil {
		project, note = "", fmt.Sprintf("the merge is done, but the project's checkout could not be updated: %v", err)
	}
	for i := range done {
		if done[i].Err == nil {
			done[i].Project, done[i].Note = project, note
		}
	}
}

func (l *BatchMerger) pause(ctx context.Context, try int) error {
	if l.Pause == nil {
		return merge.Backoff(ctx, try)
	}
	return l.Pause(ctx, try)
}

func (l *BatchMerger) say(jobs []Job, s api.QueueState) {
	if l.Report != nil {
		l.Report(jobs, s)
	}
}
