package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) queueReworkCmd() *cobra.Command {
	var req api.ReworkRequest
	cmd := &cobra.Command{
		Use:   "rework AGENT [--same]",
		Short: "Give the task to resolve a failed merge to an agent",
		Long: `Give the task to resolve a failed merge of an agent's branch: a conflict, or a check
that failed. A new ephemeral agent gets it, with the type, the rules and the limits
of AGENT and a branch of its own. With --same AGENT itself gets it, after its waiting
tasks. The work of AGENT is not changed until its commits are
in the target.

rework in [merge] of polisd.toml starts it automatically.`,
		Example:           "  polisctl queue rework claude",
		Args:              takes(1, 1, "the name of an AGENT"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&req.Same, "same", false, "give the rework to the agent of the branch, not to a new one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		return a.call(cmd, 0, func(ctx context.Context, c *client.Client) error {
			s, err := c.Rework(ctx, args[0], req)
			if err != nil {
				return err
			}
			return a.show(view{json: s, names: []string{s.Rework.Task}, human: func(p *page) { p.line("%s", reworkLine(s)) }})
		})
	}
	return cmd
}

// reworkLine is what can be, or is, done about a failed merge; empty if nothing is.
func reworkLine(s api.MergeSignal) string {
	r := s.Rework
	if r == nil || s.State != api.MergeSignalFailed || s.ResolvedBy != "" {
		return ""
	}
	switch {
	case r.State == api.ReworkStarted:
		return fmt.Sprintf("%s: agent %s resolves it, task %s", s.Agent, r.Agent, r.Task)
	case r.Error != "":
		return fmt.Sprintf("%s: rework not started: %s; polisctl queue rework %s tries again", s.Agent, clean(r.Error), s.Agent)
	case r.State == api.ReworkOffered:
		return fmt.Sprintf("%s: polisctl queue rework %s gives a new agent the task to resolve it", s.Agent, s.Agent)
	}
	return fmt.Sprintf("%s: its rework begins", s.Agent)
}
