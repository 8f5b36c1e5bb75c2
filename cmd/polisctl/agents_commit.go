package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) commitCmd() *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:   "commit NAME [-m MESSAGE]",
		Short: "Commit an agent's uncommitted changes",
		Long: `Commit all uncommitted changes of an agent on its branch: only commits are merged.
git runs in the agent's sandbox, with its identity, its hooks and its ignore rules.
Without MESSAGE, the message is made from the agent's last task. While files are in
conflict, nothing is committed.`,
		Example:           `  polisctl agents commit claude && polisctl merge claude`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "the commit's `MESSAGE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		if message != "" {
			if err := checkText("message", message, maxPrompt); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			r, err := c.Commit(ctx, args[0], api.CommitRequest{Message: message})
			if err != nil {
				return err
			}
			return a.show(view{json: r, names: []string{r.Commit}, human: func(p *page) {
				if r.Commit == "" {
					p.line("agent %s has nothing to commit", r.Agent)
					return
				}
				p.line("%s of agent %s committed as %s on %s", api.Count(r.Files, "file"), r.Agent, short(r.Commit), r.Branch)
			}})
		})
	}
	return cmd
}
