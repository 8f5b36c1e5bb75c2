package main

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
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
What HEAD is at is merged, if that contains the agent's branch. Commits on other
branches of the agent are named, with the command that merges them.
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
			out := doneView{res, notInHead(ctx, res)}
			return a.show(view{json: out, names: []string{res.Task}, human: func(p *page) {
				if res.Already {
					p.line("task %s had ended already", res.Task)
				} else {
					p.line("task %s has ended", res.Task)
				}
				for _, b := range out.Elsewhere {
					p.warn("%s", clean(b.Text()))
				}
			}})
		})
	}
	return cmd
}

// doneView is the answer with the commits that are not merged with HEAD.
type doneView struct {
	api.DoneResponse
	Elsewhere []api.BranchWork `json:"elsewhere,omitempty"`
}

// gitTime bounds the git commands that count an agent's commits.
const gitTime = 10 * time.Second

// notInHead counts the commits of the agent's branches that HEAD and the target lack, with the agent's own git in
// its sandbox. The task has ended: what git cannot count is left out here, and polisd counts it again.
func notInHead(ctx context.Context, res api.DoneResponse) (out []api.BranchWork) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	for _, branch := range res.Branches {
		text, err := exec.CommandContext(ctx, "git", "rev-list", "--count", "refs/heads/"+branch, "--not", "HEAD", "refs/heads/"+res.Target).Output() //nolint:forbidigo // the agent's own git, in the agent's sandbox
		if n, nerr := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && nerr == nil && n > 0 {
			out = append(out, api.BranchWork{Branch: branch, Commits: n, Run: "git merge --no-edit " + api.ShellWord(branch)})
		}
	}
	return out
}
