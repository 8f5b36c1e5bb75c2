package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/internal/failpoint"
)

// Recorder records the results of requests in the FlowBook of a workspace, and publishes its signals. Set
// the fields, then use it. Its caller saves the FlowBook between Landed and Announce.
type Recorder struct {
	Workspace string
	Book      *FlowBook
	// InTarget reports whether the target branch has a commit.
	InTarget func(ctx context.Context, commit string) (bool, error)
	// Mode returns [merge] rework as it is configured now.
	Mode    func() string
	Publish func(api.Event)
	Log     *slog.Logger
	Now     func() time.Time

	announcing sync.Mutex
}

// MergeResult is how a request to merge ended.
type MergeResult struct {
	ID     string // of the request
	Agent  string
	Branch string // short
	Commit string // of the merge
	Paths  []string
	Log    string // file with the output of the check; "" if there was none
	Check  string // the command of the check; "" if only git hooks ran
	Err    error  // nil: it was merged
}

// Landed records a result. A merge counts as verified only if the target has it now.
func (r *Recorder) Landed(ctx context.Context, res MergeResult) {
	out, verified := api.QueueOutcome{MergeCommitSHA: res.Commit, Paths: res.Paths}, false
	if res.Err != nil {
		e := api.AsError(res.Err)
		out = api.QueueOutcome{Code: e.Code, Message: res.Err.Error()}
		out.Paths, _ = e.Details["paths"].([]string) //nolint:errcheck // there are none
	} else {
		has, err := r.InTarget(ctx, res.Commit)
		if verified = err == nil && has; !verified {
			r.Log.Error("merge not found in the target", "agent", res.Agent, "op", "merge", "path", res.Commit, "err", err)
		}
	}
	r.Book.Checked(res.ID, res.Check, res.Log)
	r.Book.Landed(res.ID, out, verified, r.Mode(), func(s api.MergeSignal) string { return ReworkPrompt(s, res.Branch) }, r.Now())
}

// Announce publishes the signals that were saved and not published yet, in their order. After a crash
// in between the next polisd publishes them.
func (r *Recorder) Announce() {
	r.announcing.Lock()
	defer r.announcing.Unlock()
	for _, s := range r.Book.Unpublished() {
		failpoint.Hit("signal:saved")
		r.Publish(OutcomeEvent(r.Workspace, s))
		r.Book.Published(s.ID, s.State)
	}
}
