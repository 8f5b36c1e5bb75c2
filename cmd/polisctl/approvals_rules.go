package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) rulesCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "rules [--workspace W]",
		Short: "List the answers that are remembered for agents and roles",
		Args:  takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only answers remembered in this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			rules, err := c.ApprovalRules(ctx, workspace)
			if err != nil {
				return err
			}
			return a.show(rulesView(rules))
		})
	}
	return cmd
}

func rulesView(rules []api.ApprovalRule) view {
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.ID)
	}
	return view{json: map[string]any{"rules": list(rules)}, names: ids, human: func(p *page) {
		rows := make([][]cell, 0, len(rules))
		for _, r := range rules {
			whose := "agent " + r.Agent
			if r.Role != "" {
				whose = "role " + r.Role
			}
			verdict := cell{string(r.Verdict), green}
			if r.Verdict != api.VerdictApprove {
				verdict.color = red
			}
			rows = append(rows, []cell{{text: r.ID}, verdict, {text: r.Text}, {text: whose}, {text: r.Workspace}, {text: who(r.By)}, {text: p.ago(r.At)}})
		}
		p.table("nothing is remembered", []string{"ID", "VERDICT", "RULE", "FOR", "WORKSPACE", "BY", "SINCE"}, rows)
	}}
}

func (a *app) revokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a remembered answer",
		Args:  takes(1, 1, "the ID of a rule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText("ID", args[0], maxText); err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				r, err := c.RevokeApproval(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: r, names: []string{r.ID}, human: func(p *page) { p.line("%s is not remembered any more: %s", r.ID, r.Text) }})
			})
		},
	}
}
