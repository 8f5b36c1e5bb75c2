package main

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"polis/cmd/internal/bell"
	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/pause"
)

func (a *app) approvalsWatchCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "watch [--workspace W]",
		Short: "Answer questions as they come, one key each",
		Long: `Show open questions one after the other, the oldest first, and answer each with one
key:

  a  approve once           t  approve for the task
  g  approve for the agent  r  approve for the role
  d  deny, with a reason    x  deny, and end the task
  s  skip it for now        q  quit

Keys that you typed before a question was shown do not answer it. A question that
another person answers, or that is withdrawn, disappears. The terminal's bell rings
for a new question, and a terminal that supports it makes a desktop notification (OSC 9 or
OSC 777; not in screen or tmux). Without a terminal, or with --json, questions are printed as they come.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only questions of agents of this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if a.json || !isTerminal(a.stdin) || !isTerminal(a.stdout) {
			return a.printQuestions(cmd, workspace)
		}
		return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
			w := &answerScreen{a: a, c: c, workspace: workspace, skipped: map[string]bool{}, bell: bell.Bell{Getenv: a.getenv}}
			return w.run(ctx)
		})
	}
	return cmd
}

// printQuestions prints every question once, until interrupted.
func (a *app) printQuestions(cmd *cobra.Command, workspace string) error {
	return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
		seen := map[string]bool{}
		for {
			all, err := boundedApprovals(ctx, c, workspace)
			if err != nil {
				return err
			}
			now := map[string]bool{}
			for _, v := range all {
				now[v.ID] = true
				if seen[v.ID] {
					continue
				}
				if whole, err := boundedApproval(ctx, c, v.ID); err == nil && whole.Answer == nil {
					v = whole // with what an edit would change
				}
				var buf bytes.Buffer
				if a.json {
					err = encode(&buf, v, "")
				} else {
					err = a.render(&buf, view{json: v, names: []string{v.ID}, human: func(p *page) { approvalPage(p, v) }}, false)
				}
				if err != nil {
					return err
				}
				if err := a.write(buf.Bytes()); err != nil {
					return err
				}
			}
			seen = now
			if !pause.For(ctx, watchEvery) {
				return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
			}
		}
	})
}

func boundedApprovals(ctx context.Context, c *client.Client, workspace string) ([]api.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	return c.Approvals(ctx, workspace)
}

// boundedApproval is one question with what an edit would change.
func boundedApproval(ctx context.Context, c *client.Client, id string) (api.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	return c.Approval(ctx, id)
}
