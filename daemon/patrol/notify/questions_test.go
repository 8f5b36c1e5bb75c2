package notify

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store/events"
)

// asked are questions by ID.
type asked map[string]api.Approval

func (a asked) Approvals(context.Context, string) (out []api.Approval, err error) {
	return []api.Approval{a["before"]}, nil
}

func (a asked) Approval(_ context.Context, id string) (api.Approval, error) {
	v, ok := a[id]
	if !ok {
		return v, api.Errorf(api.CodeNotFound, "no question %s", id)
	}
	return v, nil
}

func TestQuestionsThatWaitAreSent(t *testing.T) {
	question := func(id, workspace string) api.Approval {
		return api.Approval{ID: id, Agent: "alice", Workspace: workspace, Callers: 1}
	}
	qs := asked{"before": question("before", "w"), "new": question("new", "w"), "answered": question("answered", "w"), "left": question("left", "w"), "root's": question("root's", "r"), "last": question("last", "w")}
	v := qs["answered"]
	v.Answer = &api.Answer{}
	qs["answered"] = v
	v = qs["left"]
	v.Callers = 0
	qs["left"] = v

	var mu sync.Mutex
	var sent []string
	done := make(chan struct{})
	hub := events.New(0)
	q := &Questions{Hub: hub, Asked: qs, User: func(workspace string) (User, bool) { return User{UID: 1000}, workspace == "w" },
		Notifier: &Notifier{Log: slog.New(slog.DiscardHandler), Settings: func() Settings { return Settings{} },
			Deliver: func(_ context.Context, u User, ev api.Event) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, ev.Message)
				if ev.Message == "agent alice asks: polisctl approvals show last" {
					close(done)
				}
				return "", nil
			}}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); q.Run(ctx) }()
	for _, id := range []string{"new", "new", "answered", "left", "root's", "gone", "last"} {
		hub.Publish(api.Event{Type: api.EventApprovalAsked, Data: map[string]any{"id": id}})
	}
	hub.Publish(api.Event{Type: api.EventDown, Data: map[string]any{"id": "answered"}})
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the last question was not sent")
	}
	cancel()
	<-ended
	require.Equal(t, []string{"agent alice asks: polisctl approvals show before", "agent alice asks: polisctl approvals show new", "agent alice asks: polisctl approvals show last"}, sent)
}
