package daemon

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/notify"
)

// noticeTime bounds the read of a question from its agent's shim.
const noticeTime = 5 * time.Second

// questionNotices runs approvals.notify for questions.
func (d *Daemon) questionNotices() *notify.Notifier {
	return &notify.Notifier{Log: d.Log, Settings: func() notify.Settings {
		a := d.live().Approvals
		return notify.Settings{Off: len(a.Notify) == 0, Pause: time.Duration(a.NotifyPause),
			Command: notify.Command{Argv: a.Notify, Timeout: time.Duration(a.NotifyTimeout)}}
	}}
}

// followQuestions sends a notification for each new question until ctx ends, and at the start for
// each that is open: polisd may have died before it sent one.
func (d *Daemon) followQuestions(ctx context.Context, n *notify.Notifier) {
	wake, cancel := d.hub.Watch()
	defer cancel()
	if len(d.live().Approvals.Notify) > 0 {
		if open, err := d.agents.Approvals(ctx, ""); err == nil {
			for _, v := range open {
				n.Send(d.questionNotice(v.ID))
			}
		}
	}
	var last uint64
	for {
		for _, e := range d.hub.Since(last) {
			last = e.ID
			if id, ok := e.Data["id"].(string); ok && e.Type == api.EventApprovalAsked {
				n.Send(d.questionNotice(id))
			}
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// questionNotice is the message for a question that is open when its turn has come.
func (d *Daemon) questionNotice(id string) notify.Message {
	return notify.Message{Key: id, Notice: func(ctx context.Context) (notify.Notice, bool) {
		ctx, cancel := context.WithTimeout(ctx, noticeTime)
		defer cancel()
		v, err := d.agents.Approval(ctx, id)
		if err != nil || v.Answer != nil || v.Callers == 0 {
			return notify.Notice{}, false
		}
		u, ok := d.notifyUser(v.Workspace)
		return notify.Notice{User: u, Event: api.Event{Time: v.Since, Type: api.EventApprovalAsked, Agent: v.Agent,
			Message: "agent " + v.Agent + " asks: polisctl approvals show " + v.ID, Data: map[string]any{"question": v}}}, ok
	}}
}

// notifyUser is who a command that concerns a workspace runs as: the user of its agents, who is
// never root.
func (d *Daemon) notifyUser(workspace string) (notify.User, bool) {
	w, err := d.agents.Workspace(workspace)
	if err != nil || w.UID == 0 {
		return notify.User{}, false
	}
	u := notify.User{UID: uint32(w.UID), GID: uint32(w.GID), Home: "/nonexistent"}
	if p, err := lookupUID(w.UID); err == nil {
		u.Home = p.HomeDir
	}
	return u, true
}
