package daemon

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/merge/queue"
)

// newRecorder returns what records and publishes the signals of requests to merge. agents.Landed
// saves them with the rest.
func (w *workspace) newRecorder(name string) *queue.Recorder {
	return &queue.Recorder{Workspace: name, Book: &w.flow, Publish: func(e api.Event) { w.d.hub.Publish(e) }, Log: w.d.Log, Now: time.Now,
		InTarget: func(ctx context.Context, commit string) (bool, error) {
			return w.git.Bare().IsAncestor(ctx, commit, git.Branch(w.agents.Target))
		},
		Mode: func() string {
			c := w.d.live()
			return *c.MergeRules(name).Rework
		}}
}
