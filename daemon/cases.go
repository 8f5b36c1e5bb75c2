package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/patrol/cases"
	"polis/daemon/store"
)

// maxNote bounds what a person writes when a case is resolved, in bytes.
const maxNote = 500

// openCases reads the cases that are kept. Damaged ones are put aside: what is still so is found
// again.
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
func (d *Daemon) caseChanged(what cases.Change, c api.Case) {
	message := fmt.Sprintf("%s of agent %s (%s, %s): %s", c.ID, c.Agent, c.Kind, c.State, what)
	switch {
	case c.Resolution != nil && c.Resolution.How != "":
		message += ": " + c.Resolution.How
	case c.Resolution == nil:
		message += ": " + strings.Join(c.Evidence, "; ")
	}
	d.hub.Publish(api.Event{Type: api.EventCase, Agent: c.Agent, Message: message, Data: map[string]any{"case": c, "change": string(what)}})
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
	if len(req.Note) > maxNote || strings.ContainsFunc(req.Note, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return api.Case{}, api.Errorf(api.CodeBadRequest, "note: must be one line of at most %d bytes", maxNote)
	}
	return b.cases.Resolve(id, by, req.Note)
}
