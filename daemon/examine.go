package daemon

import (
	"context"
	"time"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
)

// examineLimit bounds all of doctor's checks together.
const examineLimit = 2 * time.Minute

// Doctor examines the machine and the workspaces.
func (d *Daemon) Doctor(ctx context.Context) (api.DoctorReport, error) {
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	rep, err := d.shims.Examine(ctx)
	if err != nil {
		return rep, err
	}
	for _, w := range d.gitWorkspaces("") {
		rep.Checks = append(rep.Checks, w.integrity.Examine(ctx))
	}
	for _, w := range d.sorted("") {
		links, err := d.agents.Links(w.agents, d.live().Sandbox)
		rep.Checks = append(rep.Checks, outlinks.Check(w.agents.Name, links, err))
	}
	if d.live().Notify.Desktop {
		rep.Checks = append(rep.Checks, d.desktop.Check())
	}
	return rep, nil
}
