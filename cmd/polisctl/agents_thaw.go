package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/http/client"
)

func (a *app) agentsThawCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "thaw NAME",
		Short: "Thaw the processes of a frozen agent",
		Long: `Thaw the processes of a frozen agent. A circuit breaker of its role froze them;
polisctl patrol cases has the evidence. The counts of its breakers are reset.
polisctl agents stop NAME ends the processes instead.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgents(args...); err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				g, err := c.Thaw(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: tidy(g), names: []string{g.Name}, human: func(p *page) { p.line("agent %s continues", g.Name) }})
			})
		},
	}
}
