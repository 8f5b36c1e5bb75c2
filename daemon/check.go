package daemon

import (
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/merge/check"
)

// checker returns what runs the workspace's check command.
func (w *workspace) checker(rules config.MergeRules) *check.Runner {
	d, ws := w.d, w.agents
	r := &check.Runner{Workspace: ws.Name, Root: ws.Root, Project: ws.Recorded(), UID: ws.UID, GID: ws.GID,
		Rules: rules, Config: d.live(), Shims: d.shims.Checks(), Export: w.git.Export, Prepare: w.git.PrepareCheck, Release: w.git.EndCheck, Log: d.Log,
		Sandbox: func(name string) (wire.Spec, error) {
			return d.shims.Checks().Sandbox(name, ws.UID)
		}}
	if *rules.Hooks {
		r.Hooks = w.mergeHooks
	}
	return r
}
