package daemon

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/failpoint"
	"polis/daemon/git"
	"polis/daemon/mergeflow"
	"polis/daemon/queue"
)

// signalled records the result of a request to merge. agents.Landed saves it with the rest.
func (w *workspace) signalled(ctx context.Context, o queue.Outcome) {
	out := api.QueueOutcome{MergeCommitSHA: o.Result.Commit, Paths: o.Result.Paths}
	verified := false
	if o.Err != nil {
		e := api.AsError(o.Err)
		out = api.QueueOutcome{Code: e.Code, Message: o.Err.Error()}
		out.Paths, _ = e.Details["paths"].([]string) //nolint:errcheck // there are none
	} else {
		has, err := w.git.Bare().IsAncestor(ctx, o.Result.Commit, git.Branch(w.agents.Target))
		if verified = err == nil && has; !verified {
			w.d.Log.Error("merge not found in the target", "agent", o.Job.Entry.Agent, "op", "merge", "path", o.Result.Commit, "err", err)
		}
	}
	c := w.d.live()
	prompt := func(s api.MergeSignal) string { return mergeflow.Prompt(s, o.Job.Request.Branch) }
	w.flow.Landed(o.Job.Entry.ID, out, verified, *c.MergeRules(w.agents.Name).Rework, prompt, time.Now())
}

// announce publishes the signals that were saved and not published yet. After a crash in between the
// next polisd publishes them.
func (w *workspace) announce() {
	w.announcing.Lock() // in their order
	defer w.announcing.Unlock()
	for _, s := range w.flow.Unpublished() {
		failpoint.Hit("signal:saved")
		w.d.hub.Publish(mergeflow.Event(w.agents.Name, s))
		w.flow.Published(s.ID, s.State)
	}
}
