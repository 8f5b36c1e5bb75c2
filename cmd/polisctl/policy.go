package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) learnedCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy COMMAND",
		Short: "Learn a role from what an agent does, and check a role against it",
		Long: `Learn a role from what an agent does, and check a role against it.

With policy = "record" in [roles.NAME] or [agents.NAME] of polisd.toml, the lists read
and write do not restrict an agent, and what it uses is recorded from its next start.
Rules that deny, hide or ask, egress and leases hold.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.policyLearnCmd(), a.policyCheckCmd())
	return cmd
}

// recordedFlags adds the flags that choose what an agent used.
func recordedFlags(cmd *cobra.Command, req *api.PolicyRequest, run *string) {
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "the `WORKSPACE` of an agent that was removed")
	cmd.Flags().StringVar(run, "run", "all", "only this `RUN`: a number, or last")
}

func readRecorded(req *api.PolicyRequest, run string) error {
	if err := checkWorkspace(req.Workspace); err != nil {
		return err
	}
	switch run {
	case "all":
		req.Run = 0
	case "last":
		req.Run = -1
	default:
		n, err := strconv.Atoi(run)
		if err != nil || n < 1 {
			return usagef("--run must be a number above 0, last or all")
		}
		req.Run = n
	}
	return checkAgents(req.Agent)
}

func (a *app) policyLearnCmd() *cobra.Command {
	var req api.PolicyRequest
	var run string
	cmd := &cobra.Command{
		Use:   "learn AGENT [--role NAME] [--run N|last|all] [-w WORKSPACE]",
		Short: "Print a role that allows what an agent used in record mode",
		Long: `Print a role that allows what an agent used in record mode, as text for polisd.toml.
Nothing is configured: review the role, since it allows what was done, whether or not
it should have been.

The rules are exact paths, and "DIR/**" for a directory in which many names were used.
What the rules in force withheld stays withheld, and is listed in a comment. A comment
also names what the record lacks.`,
		Example: `  polisctl policy learn claude --role docs-writer > role.toml
  polisctl policy check docs-writer claude`,
		Args: takes(1, 1, "the name of an AGENT"), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVar(&req.Role, "role", "", "the `NAME` of the role (default: that of the agent)")
	recordedFlags(cmd, &req, &run)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Agent = args[0]
		if err := readRecorded(&req, run); err != nil {
			return err
		}
		if req.Role != "" {
			if err := api.CheckName(req.Role); err != nil {
				return usagef("--role: %w", err)
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			l, err := c.LearnPolicy(ctx, req)
			if err != nil {
				return err
			}
			return a.show(view{json: l, names: []string{l.Role}, human: func(p *page) {
				p.text(strings.TrimSuffix(l.TOML, "\n"))
			}})
		})
	}
	return cmd
}

func (a *app) policyCheckCmd() *cobra.Command {
	var req api.PolicyRequest
	var run string
	cmd := &cobra.Command{
		Use:   "check ROLE AGENT [--run N|last|all] [-w WORKSPACE]",
		Short: "List what a role would have refused of what an agent used in record mode",
		Long: `List what a role would have refused of what an agent used in record mode. The rules are
compared as they are at the system call.

The exit status is 1 if there is something, as that of diff.`,
		Args:              takes(2, 2, "the name of a ROLE and that of an AGENT"),
		ValidArgsFunction: a.completeRoleAgent,
	}
	recordedFlags(cmd, &req, &run)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Role, req.Agent = args[0], args[1]
		if err := checkText("ROLE", req.Role, maxText); err != nil {
			return err
		}
		if err := readRecorded(&req, run); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			v, err := c.CheckPolicy(ctx, req)
			if err != nil {
				return err
			}
			if err := a.show(view{json: v, human: func(p *page) { policyCheckPage(p, v) }}); err != nil {
				return err
			}
			if len(v.Refused) > 0 {
				return childStatus(exitFailure)
			}
			return nil
		})
	}
	return cmd
}

func policyCheckPage(p *page, v api.PolicyCheck) {
	rows := make([][]cell, 0, len(v.Refused))
	for _, r := range v.Refused {
		use, what := "read", r.Path
		switch {
		case r.Name != "":
			use, what = "resolve", r.Name
		case r.Write:
			use = "write"
		}
		if r.Tree {
			what += "/**"
		}
		rule := r.Rule
		if rule == "" {
			rule = "no rule names it"
		}
		if r.Refused {
			rule += " (refused then, too)"
		}
		rows = append(rows, []cell{{text: r.Verdict}, {text: use}, {text: what}, {text: rule}})
	}
	p.table(fmt.Sprintf("role %s would have refused nothing of what agent %s used in %s", v.Role, v.Agent, api.Count(len(v.Runs), "run")), []string{"VERDICT", "USE", "WHAT", "RULE"}, rows)
	for _, why := range v.Incomplete {
		p.warn("incomplete: %s", why)
	}
}

// completeRoleAgent completes a role, then an agent.
func (a *app) completeRoleAgent(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeRoles(cmd, args, word)
	}
	return a.completeAgents(cmd, args[1:], word)
}
