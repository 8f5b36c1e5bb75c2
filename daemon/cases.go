package daemon

import (
	"errors"
	"os"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/patrol/cases"
	"polis/daemon/patrol/notify"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

// openCases reads the saved cases. A damaged file is renamed: the patrol finds again what still
// applies.
func (d *Daemon) openCases() {
	path := layout.Cases(d.Config.WorkspacesDir)
	d.cases = &cases.Book{Now: time.Now, Changed: d.caseChanged,
		Save: func(k cases.Kept) error { return store.WriteKept(path, k) }}
	if err := store.Sweep(path); err != nil {
		d.Log.Warn("temporary file of a crash not removed", "path", path, "err", err)
	}
	var k cases.Kept
	_, err := store.ReadKept(path, &k, d.started, func(cases.Kept) error { return nil })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.warn(string(api.CodeStateCorrupt) + ": the cases of the patrol: " + err.Error())
	}
	d.cases.Load(k)
}

// openCase opens a case, or updates it. A case that cannot be kept is logged: it is found again.
func (d *Daemon) openCase(c api.Case) (kept api.Case, fresh bool) {
	kept, fresh, err := d.cases.Open(c)
	if err != nil {
		d.Log.Error("case of the patrol not kept", "agent", c.Agent, "kind", c.Kind, "err", err)
	}
	return kept, fresh
}

// settleCases resolves the open cases that match, since the facts did.
func (d *Daemon) settleCases(match func(api.Case) bool, how string) {
	if _, err := d.cases.Settle(match, how); err != nil {
		d.Log.Error("resolved case of the patrol not kept", "err", err)
	}
}

// caseChanged publishes what happened to a case.
func (d *Daemon) caseChanged(what cases.Change, c api.Case) { d.hub.Publish(cases.Event(what, c)) }

// escalator sends the cases to the targets of [patrol.escalation].
func (d *Daemon) escalator() *notify.Escalator {
	return &notify.Escalator{Settings: func() config.Escalation { return d.live().Patrol.Escalation },
		Cases: d.cases, Hub: d.hub, User: d.notifyUser, Journal: d.Systemd, Log: d.Log}
}

// Cases lists the cases of the patrol.
func (b *backend) Cases(workspace string, all bool) ([]api.Case, error) {
	if workspace != "" {
		w, err := b.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = w.Name
	}
	return b.cases.List(workspace, all), nil
}

// Case returns a case.
func (b *backend) Case(id string) (api.Case, error) { return b.cases.Get(id) }

// ResolveCase ends a case for a person.
func (b *backend) ResolveCase(by, id string, req api.ResolveRequest) (api.Case, error) {
	if err := cases.CheckNote(req.Note); err != nil {
		return api.Case{}, err
	}
	return b.cases.Resolve(id, by, req.Note)
}
