package daemon

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/host/command"
	"polis/daemon/patrol/notify"
)

// questions returns what runs approvals.notify for the questions of agents.
func (d *Daemon) questions() *notify.Questions {
	return &notify.Questions{Hub: d.hub, Asked: d.agents, User: d.notifyUser, Notifier: &notify.Notifier{Log: d.Log, Settings: func() notify.Settings {
		a := d.live().Approvals
		return notify.Settings{Off: len(a.Notify) == 0, Pause: time.Duration(a.NotifyPause),
			Command: notify.Command{Argv: a.Notify, Timeout: time.Duration(a.NotifyTimeout)}}
	}}}
}

// happenings returns what sends the messages of [notify].
func (d *Daemon) happenings() *notify.Happenings {
	d.desktop.Log = d.Log
	return &notify.Happenings{Hub: d.hub, Asked: d.agents, User: d.notifyUser, Kinds: func() []string { return d.live().Notify.Events },
		Workspace: func(agent string) string {
			w, err := d.agents.WorkspaceOf(agent)
			if err != nil {
				return "" // it was removed since
			}
			return w
		},
		Notifier: &notify.Notifier{Log: d.Log,
			Settings: func() notify.Settings {
				n := d.live().Notify
				return notify.Settings{Off: !d.notifyTargets().Set(), Pause: time.Duration(n.Pause)}
			},
			Deliver: func(ctx context.Context, u notify.User, ev api.Event) (string, error) {
				return d.notifyTargets().Deliver(ctx, u, ev)
			}}}
}

// notifyTargets are those of the present configuration.
func (d *Daemon) notifyTargets() notify.Targets {
	n := d.live().Notify
	hook, err := command.ParseWebhook(n.Webhook)
	if err != nil {
		d.Log.Error("webhook of the configuration not used", "op", "notify", "err", err) // it was checked
	}
	to := notify.Targets{Command: notify.Command{Argv: n.Command, Timeout: time.Duration(n.Timeout)}, Webhook: hook}
	if n.Desktop {
		to.Desktop = &d.desktop
	}
	return to
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
