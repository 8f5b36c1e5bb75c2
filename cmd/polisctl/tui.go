package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/client"

	"polis/cmd/polisctl/tui"
)

func (a *app) tuiCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "tui [-w WORKSPACE]",
		Short: "Watch and steer all agents on one screen",
		Long: `Watch and steer all agents on one screen: state, branch, what became of it, processor,
memory, leases, ports and last output of each, kept up to date by events. It needs a terminal
of 40 by 10 cells; from 80 by 24 on there are details of the chosen agent, and from a width
of 110 on every row has the agent's last output.

Keys:
  up down j k    choose an agent; scroll
  enter l        log            d  diff            e  events
  /              filter         esc  close, drop the filter
  m              merge          u  undo: take the merge back
  D              discard        s  start           x  stop
  i              say a line to a running agent, give a task to another one
  b              broadcast a line to all running agents
  r              read anew      ?  help            q  leave

What cannot be taken back lightly is asked first; only y is a yes. Without
colours (NO_COLOR, or TERM=dumb) the chosen agent is marked by '>'.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only agents of this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if a.json || a.quiet || !isTerminal(a.stdin) || !isTerminal(a.stdout) {
			return usagef("%s needs a terminal, and neither --json nor --quiet", cmd.CommandPath()).
				WithHint("elsewhere use: polisctl agents list --watch, polisctl events -f")
		}
		return a.call(cmd, forever, func(ctx context.Context, c *client.Client) error {
			return tui.Run(ctx, tui.Options{Daemon: c, Workspace: workspace, Colors: a.colors(), In: a.stdin, Out: a.stdout, Now: a.now})
		})
	}
	return cmd
}
