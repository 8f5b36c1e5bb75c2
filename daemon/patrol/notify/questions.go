package notify

import (
	"context"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/store/events"
)

// questionTime bounds the read of a question from its agent's shim.
const questionTime = 5 * time.Second

// Asked has the questions of agents.
type Asked interface {
	// Approvals returns the open questions, of all workspaces if workspace is "".
	Approvals(ctx context.Context, workspace string) ([]api.Approval, error)
	Approval(ctx context.Context, id string) (api.Approval, error)
}

// Questions sends a message for each new question of an agent. Set the fields, then Run.
type Questions struct {
	Notifier *Notifier
	// Hub has an event for each new question.
	Hub   *events.Hub
	Asked Asked
	// User returns the user that the command for a question of a workspace runs as; false: none, and
	// nothing is sent.
	User func(workspace string) (User, bool)
}

// Run sends messages until ctx ends, and at the start one for each open question: polisd may have
// died before it sent it.
func (q *Questions) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { q.Notifier.Run(ctx) })
	wake, cancel := q.Hub.Watch()
	defer cancel()
	if !q.Notifier.Settings().Off {
		if open, err := q.Asked.Approvals(ctx, ""); err == nil {
			for _, v := range open {
				q.Notifier.Send(q.message(v.ID))
			}
		}
	}
	var last uint64
	for {
		for _, e := range q.Hub.Since(last) {
			last = e.ID
			if id, ok := e.Data["id"].(string); ok && e.Type == api.EventApprovalAsked {
				q.Notifier.Send(q.message(id))
			}
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// message is that of a question. When its turn has come, a question that was answered or that
// nothing waits for is not worth a message any more.
func (q *Questions) message(id string) Message {
	return Message{Key: id, Notice: func(ctx context.Context) (Notice, bool) {
		ctx, cancel := context.WithTimeout(ctx, questionTime)
		defer cancel()
		v, err := q.Asked.Approval(ctx, id)
		if err != nil || v.Answer != nil || v.Callers == 0 {
			return Notice{}, false
		}
		u, ok := q.User(v.Workspace)
		return Notice{User: u, Event: api.Event{Time: v.Since, Type: api.EventApprovalAsked, Agent: v.Agent,
			Message: "agent " + v.Agent + " asks: polisctl approvals show " + v.ID, Data: map[string]any{"question": v}}}, ok
	}}
}
