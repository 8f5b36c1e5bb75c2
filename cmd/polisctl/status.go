package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show polisd, its workspaces and agents",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				st, err := c.Status(ctx)
				if err != nil {
					return err
				}
				st.Workspaces, st.Agents = list(st.Workspaces), agentsOf(st.Agents)
				return a.show(view{json: st, human: func(p *page) { statusPage(p, st) }})
			})
		},
	}
}

func statusPage(p *page, st api.DaemonStatus) {
	p.line("polisd %s, pid %d, up %s", st.Version, st.PID, p.ago(st.StartedAt))
	p.line("  isolation   %s", st.IsolationMode)
	p.line("  launcher    %s", st.Launcher)
	p.line("  cgroups     %s", st.CgroupMode)
	p.line("  locks       %d", st.Locks)
	p.line("  conflicts   %s", conflictLine(st.Conflicts))
	if n := st.Cases.Open; n > 0 {
		p.line("  cases       %d open (polisctl patrol cases)", n)
	}
	if full := auditedAgents(st.Agents); len(full) > 0 {
		p.line("  audit       full for %s: what they open is recorded, and their overlays are below their views", api.Shorten(strings.Join(full, ", "), 200))
	}
	if names := recording(st.Agents); len(names) > 0 {
		p.line("  recording   %s (polisctl policy learn AGENT): their lists read and write do not restrict them, and overlays are below views", strings.Join(names, ", "))
	}
	reconcileLines(p, st.Reconcile, st.Warnings)
	for _, w := range st.Warnings {
		p.warn("%s", w)
	}
	p.line("")
	rows := make([][]cell, 0, len(st.Workspaces))
	for _, w := range st.Workspaces {
		rows = append(rows, []cell{{text: w.Name}, {text: w.TargetBranch}, {text: api.Count(w.Agents, "agent")}, {text: w.Project}})
	}
	p.table("no workspaces: make one with polisctl up", []string{"WORKSPACE", "TARGET", "AGENTS", "PROJECT"}, rows)
	p.line("")
	agentTable(p, st.Agents)
}

// auditedAgents returns the agents whose opens are recorded.
func auditedAgents(all []api.Agent) (out []string) {
	for _, g := range all {
		if g.Audit != "" {
			out = append(out, g.Name)
		}
	}
	return out
}

// recording returns the agents in record mode.
func recording(agents []api.Agent) (names []string) {
	for _, g := range agents {
		if g.Recording {
			names = append(names, g.Name)
		}
	}
	return names
}

// reconcileLines reports what the last start of polisd found, and in full what it
// did about it.
func reconcileLines(p *page, r *api.ReconcileReport, said []string) {
	if r == nil {
		return
	}
	p.line("  started     %s (%d ms)", r.Summary(), r.TookMillis)
	for _, l := range []struct {
		what  string
		lines []string
	}{{"healed", r.Healed}, {"found", r.Found}, {"dropped", r.Dropped}, {"skipped", r.Skipped}, {"error", r.Errors}} {
		for _, line := range l.lines {
			if !slices.Contains(said, line) {
				p.warn("%s: %s", l.what, line)
			}
		}
	}
}

func conflictLine(n api.ConflictCount) string {
	if n == (api.ConflictCount{}) {
		return "none"
	}
	return api.Count(n.Merges, "merge") + ", " + api.Count(n.Paths, "path") + " changed by two agents (polisctl conflicts)"
}
