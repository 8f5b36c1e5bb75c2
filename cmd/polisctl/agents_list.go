package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) listCmd() *cobra.Command {
	var workspace string
	var watch, waiting bool
	cmd := &cobra.Command{
		Use:     "list [--workspace W] [--waiting] [--watch]",
		Aliases: []string{"ls"},
		Short:   "List agents",
		Args:    takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only agents of this `WORKSPACE`")
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "only agents that wait for an answer or for a lock, or are frozen")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			agents, err := c.Agents(ctx, workspace)
			if err != nil {
				return view{}, err
			}
			if waiting {
				agents = slices.DeleteFunc(agents, func(g api.Agent) bool { return g.Waiting == nil })
			}
			return agentsView(agents), nil
		})
	}
	return cmd
}

func agentsView(agents []api.Agent) view {
	return view{
		json:  map[string]any{"agents": agentsOf(agents)},
		names: namesOf(agents),
		human: func(p *page) { agentTable(p, agents) },
	}
}

// checkWorkspace checks a --workspace that may be missing.
func checkWorkspace(name string) error {
	if name == "" {
		return nil
	}
	return checkWord("workspace", name, maxText)
}
