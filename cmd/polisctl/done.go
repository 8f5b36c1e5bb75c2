package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

// maxDoneText bounds an agent's message about the end of its task, in bytes.
const maxDoneText = 1000

func (a *app) doneCmd() *cobra.Command {
	var failed bool
	var status string
	cmd := &cobra.Command{
		Use:   "done [--failed] [--cleanup-status STATUS] [MESSAGE...]",
		Short: "In a sandbox: end the agent's task",
		Long: `End the task that this agent works on. It is for agents, in their sandbox.

A task ends once: when its program ends, when the agent reports it with this
command, or when a person stops or cancels it, whichever comes first. If the task
ended well, its branch is then merged as configured. With --failed the task did not
end well, and a person decides about the branch. Uncommitted changes are not merged.
A second call has no effect.

With --cleanup-status the agent reports which work is only in its worktree:
clean (none), has_uncommitted, has_stash or has_unpushed. polisd determines the
same. An ephemeral agent is removed only if both are clean.

MESSAGE is kept with the task; polisctl tasks shows it.`,
		Example: `  git commit -am "fix the parser" && polisctl done
  polisctl done --cleanup-status clean
  polisctl done --failed "the tests of package store cannot pass"`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "report that the task failed")
	cmd.Flags().StringVar(&status, "cleanup-status", "", "which work exists only in this worktree: `clean|has_uncommitted|has_stash|has_unpushed`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.DoneRequest{Failed: failed, Message: strings.Join(args, " "), CleanupStatus: api.CleanupStatus(status)}
		if err := api.CheckCleanup(req.CleanupStatus); err != nil {
			return usagef("--cleanup-status: %s", api.AsError(err).Message)
		}
		if err := checkText("MESSAGE", req.Message, maxDoneText); req.Message != "" && err != nil {
			return err
		}
		if _, inside := a.insidePath(); !inside {
			return api.Errorf(api.CodeBadState, "done is for agents, in their sandbox").
				WithHint("polisctl tasks lists the tasks, polisctl agents stop NAME ends what an agent works on")
		}
		return a.callInside(cmd, shortCall, func(ctx context.Context, c *client.Inside) error {
			res, err := c.Done(ctx, req)
			if err != nil {
				return err
			}
			return a.show(view{json: res, names: []string{res.Task}, human: func(p *page) {
				if res.Already {
					p.line("task %s had ended already", res.Task)
					return
				}
				p.line("task %s has ended", res.Task)
			}})
		})
	}
	return cmd
}
