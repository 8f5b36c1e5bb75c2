package notify

import (
	"context"
	"maps"
	"slices"
	"sync"

	"polis/daemon/api"
	"polis/daemon/store/events"
)

// The kinds of messages: those of config.NotifyKinds.
const (
	KindQuestion = "question" // an agent asks a person
	KindTask     = "task"     // a task has ended
	KindCheck    = "check"    // the check of a merge has failed
	KindConflict = "conflict" // a branch cannot be merged because of a conflict
	KindBudget   = "budget"   // an agent has used 80 percent of its budget for models, or all of it
)

// Happenings sends a message for what people wait for. Set the fields, then Run.
type Happenings struct {
	Notifier *Notifier
	Hub      *events.Hub
	Asked    Asked
	// Kinds are the kinds that are sent. They are read for each event.
	Kinds func() []string
	// Workspace returns the workspace of an agent; "" if there is none any more.
	Workspace func(agent string) string
	// User is as in Questions.
	User func(workspace string) (User, bool)
}

// Run sends messages until ctx ends, and at the start one for each open question.
func (h *Happenings) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { h.Notifier.Run(ctx) })
	wake, cancel := h.Hub.Watch()
	defer cancel()
	h.openQuestions(ctx)
	var last uint64
	for {
		for _, e := range h.Hub.Since(last) {
			last = e.ID
			if kind, key := KindOf(e); kind != "" && slices.Contains(h.Kinds(), kind) {
				h.Notifier.Send(h.message(kind, key, e))
			}
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// openQuestions sends those that are open: polisd may have died before it sent them.
func (h *Happenings) openQuestions(ctx context.Context) {
	if h.Notifier.Settings().Off || !slices.Contains(h.Kinds(), KindQuestion) {
		return
	}
	open, err := h.Asked.Approvals(ctx, "")
	if err != nil {
		h.Notifier.Log.Warn("open questions not read: none of them is sent", "op", "notify", "err", err)
		return
	}
	for _, v := range open {
		h.Notifier.Send(h.message(KindQuestion, v.ID, api.Event{}))
	}
}

// KindOf returns the kind of message that an event is worth, and what identifies it among those of the kind. "" is
// none.
func KindOf(e api.Event) (kind, key string) {
	id, _ := e.Data["id"].(string)
	switch e.Type {
	case api.EventApprovalAsked:
		return KindQuestion, id
	case api.EventTask:
		later, _ := e.Data["later"].(bool)
		if state, ok := e.Data["state"].(api.TaskState); ok && state == api.TaskEnded && id != "" && !later {
			return KindTask, id // its end, not the result of its branch later
		}
	case api.EventMergeFailed:
		s, ok := e.Data["signal"].(api.MergeSignal)
		if !ok {
			return "", ""
		}
		switch e.Code {
		case api.CodeCheckFailed:
			return KindCheck, s.ID
		case api.CodeMergeConflict:
			return KindConflict, s.ID
		}
	case api.EventModelBudget:
		return KindBudget, "" // at most twice for a task and a day
	}
	return "", ""
}

// message is that of an event. A question is read when its turn has come.
func (h *Happenings) message(kind, key string, e api.Event) Message {
	if key != "" {
		key = kind + " " + key
	}
	return Message{Key: key, Notice: func(ctx context.Context) (Notice, bool) {
		n, ok := Notice{Event: e}, true
		if kind == KindQuestion {
			q := Questions{Asked: h.Asked, User: h.User}
			n, ok = q.message(key[len(kind)+1:]).Notice(ctx)
		} else {
			n.User, _ = h.User(h.workspace(e)) // without one no command is run
		}
		if n.Event.Data = maps.Clone(n.Event.Data); n.Event.Data == nil {
			n.Event.Data = map[string]any{}
		}
		n.Event.Data["kind"] = kind
		return n, ok
	}}
}

func (h *Happenings) workspace(e api.Event) string {
	if w, ok := e.Data["workspace"].(string); ok {
		return w
	}
	return h.Workspace(e.Agent)
}
