package daemon

import (
	"time"

	"polis/daemon/notify"
)

// questions returns what runs approvals.notify for the questions of agents.
func (d *Daemon) questions() *notify.Questions {
	return &notify.Questions{Hub: d.hub, Asked: d.agents, User: d.notifyUser, Notifier: &notify.Notifier{Log: d.Log, Settings: func() notify.Settings {
		a := d.live().Approvals
		return notify.Settings{Off: len(a.Notify) == 0, Pause: time.Duration(a.NotifyPause),
			Command: notify.Command{Argv: a.Notify, Timeout: time.Duration(a.NotifyTimeout)}}
	}}}
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
