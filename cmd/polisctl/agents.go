package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) agentsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agents COMMAND",
		Aliases: []string{"agent"},
		Short:   "Add, run, enter, inspect and remove agents",
		Args:    cobra.ArbitraryArgs,
		RunE:    group,
	}
	cmd.AddCommand(
		a.listCmd(), a.addCmd(), a.forkCmd(), a.setCmd(), a.removeCmd(), a.startCmd(), a.stopCmd(), a.agentsThawCmd(), a.runCmd(), a.watchCmd(),
		a.execCmd(), a.shellCmd(), a.attachCmd(), a.prCmd(), a.commitCmd(), a.diffCmd(), a.rebaseCmd(),
		a.agentLocksCmd(), a.whyCmd(), a.leftoversCmd(), a.policyCmd(), a.agentTasksCmd(), a.typesCmd(),
	)
	return cmd
}

// tidy makes an agent's lists lists also when they are empty.
func tidy(g api.Agent) api.Agent {
	g.PortMappings = list(g.PortMappings)
	return g
}

func agentsOf(agents []api.Agent) []api.Agent {
	out := make([]api.Agent, 0, len(agents))
	for _, g := range agents {
		out = append(out, tidy(g))
	}
	return out
}

func namesOf(agents []api.Agent) []string {
	var names []string
	for _, g := range agents {
		names = append(names, g.Name)
	}
	return names
}

func statusCell(s api.Status) cell {
	switch s {
	case api.StatusRunning:
		return cell{string(s), green}
	case api.StatusError:
		return cell{string(s), red}
	case api.StatusCreating:
		return cell{string(s), yellow}
	case api.StatusStopped:
		return cell{string(s), dim}
	}
	return cell{text: string(s)}
}

// stateCell is an agent's state: one that waits does not work.
func stateCell(g api.Agent) cell {
	if g.Waiting != nil {
		return waitingCell(g.Waiting)
	}
	return statusCell(g.Status)
}

// waitingCell is the state of an agent that waits. A frozen one waits for a person in any case.
func waitingCell(w *api.Waiting) cell {
	if w.For == api.WaitingThaw {
		return cell{agenttext.WaitingState(w), red}
	}
	return cell{agenttext.WaitingState(w), yellow}
}

// waitingText describes what an agent waits for, since when, and what to do.
func waitingText(p *page, agent string, w *api.Waiting) string {
	text := agent + ": " + agenttext.Waited(w, p.now, shownWhat) + "; "
	switch w.For {
	case api.WaitingThaw:
		return text + "polisctl agents thaw " + agent
	case api.WaitingLease:
		return text + "polisctl locks shows who has what"
	}
	return text + "polisctl approvals show " + w.ID
}

// atLimit adds the limits that an agent has run into in the last minute.
func atLimit(c cell, hits []api.LimitHit, now time.Time) cell {
	for _, h := range hits {
		if now.Sub(h.Last) < time.Minute {
			c.text, c.color = c.text+" !"+h.Limit, yellow
		}
	}
	return c
}

func portsText(ports []api.PortMapping) string {
	var s []string
	for _, m := range ports {
		s = append(s, fmt.Sprintf("%d->%s", m.External, innerPort(m)))
	}
	return strings.Join(s, ", ")
}

// agentTable lists agents, those that wait for a person first.
func agentTable(p *page, agents []api.Agent) {
	agents = slices.Clone(agents)
	slices.SortStableFunc(agents, agenttext.ByNeed)
	rows := make([][]cell, 0, len(agents))
	models := slices.ContainsFunc(agents, func(g api.Agent) bool { return g.Models != nil })
	for _, g := range agents {
		branch := g.Branch
		if g.MergeStatus != "" {
			branch += " (" + string(g.MergeStatus) + ")"
		}
		rows = append(rows, withModels(models, g.Models, []cell{
			{text: g.Name}, {text: g.BaseType}, atLimit(stateCell(g), g.LimitHits, p.now), taskCell(g.Task), {text: branch}, {text: g.Workspace},
			{text: portsText(g.PortMappings)}, {text: size(g.MemoryBytes)}, {text: p.ago(g.CreatedAt)},
		}))
	}
	p.table("no agents: add one with polisctl agents add", modelHeads(models, "NAME", "TYPE", "STATUS", "TASK", "BRANCH", "WORKSPACE", "PORTS", "MEMORY", "AGE"), rows)
	for _, g := range agents {
		if g.StatusReason != "" && g.Status == api.StatusError {
			p.line("%s: %s", g.Name, g.StatusReason)
		}
		if g.TrashedWorktree != "" {
			p.line("%s: its worktree was broken and is in %s", g.Name, clean(g.TrashedWorktree))
		}
		if g.Task != nil && len(g.Task.Elsewhere) > 0 {
			p.line("%s: %s", g.Name, clean(api.BranchesText(g.Task.Elsewhere, "polisctl tasks show "+g.Task.ID)))
		}
		if text := agentWaits(g); text != "" {
			p.line("%s", text)
		}
		if g.Waiting != nil {
			p.line("%s", waitingText(p, g.Name, g.Waiting))
		}
		if len(g.Leftovers) > 0 {
			p.line("%s", leftText(g))
		}
	}
}

// completeAgents offers the names of agents to the shell.
func (a *app) completeAgents(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		agents, err := c.Agents(ctx, "")
		return namesOf(agents), err
	})
}

// completeTime bounds a query of polisd for the shell's completion.
const completeTime = time.Second

// complete offers what query returns for the first argument. It offers nothing for a further one,
// and nothing if polisd does not answer.
func (a *app) complete(cmd *cobra.Command, args []string, query func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	c := a.client()
	defer c.Close()
	words, err := query(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeWords offers a fixed list.
func completeWords(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTypes offers the base types that can be used here.
func (a *app) completeTypes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, nil, func(ctx context.Context, c *client.Client) ([]string, error) {
		types, err := c.Types(ctx)
		var names []string
		for _, t := range types {
			if t.Available {
				names = append(names, t.Name)
			}
		}
		return names, err
	})
}
