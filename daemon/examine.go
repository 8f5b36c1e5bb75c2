package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"time"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
)

// examineLimit bounds all of doctor's checks together.
const examineLimit = 2 * time.Minute

// Doctor runs polis-shim to examine the machine: only it links the code of views, sandboxes and
// networks.
func (d *Daemon) Doctor(ctx context.Context) (api.DoctorReport, error) {
	var rep api.DoctorReport
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	args := []string{"--doctor"}
	if d.ConfigFile != "" {
		args = append(args, "--config", d.ConfigFile)
	}
	cmd := exec.CommandContext(ctx, d.shims.program, args...) //nolint:forbidigo // our own program; it ends with its answer
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return rep, api.Errorf(api.CodeInternal, "examine the machine: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		return rep, api.Errorf(api.CodeInternal, "examine the machine: %w", err)
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
