package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// maxCheckText bounds what roles check takes: it is part of a URL.
const maxCheckText = 8 << 10

func (a *app) rolesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "roles COMMAND",
		Short: "List the roles of agents, and find out what one decides",
		Long: `A role is a table [roles.NAME] of polisd.toml: what its agents may read and write,
which tools of their programs need a person's approval, and which model they use.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.rolesListCmd(), a.rolesShowCmd(), a.rolesCheckCmd())
	return cmd
}

func (a *app) rolesListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List roles",
		Args:    takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				all, err := c.Roles(ctx)
				if err != nil {
					return err
				}
				return a.show(rolesView(all))
			})
		},
	}
}

func rolesView(all []api.Role) view {
	var names []string
	var rows [][]cell
	for _, r := range all {
		names = append(names, r.Name)
		rows = append(rows, []cell{{text: r.Name}, {text: r.Model}, {text: strings.Join(r.Policy.Write, " ")}, {text: toolsBrief(r.Tools)}, {text: strings.Join(r.Agents, " ")}})
	}
	return view{json: map[string]any{"roles": list(all)}, names: names, human: func(p *page) {
		p.table("no roles: they are tables [roles.NAME] of polisd.toml", []string{"NAME", "MODEL", "MAY WRITE", "TOOLS", "AGENTS"}, rows)
	}}
}

// toolsBrief is the rules of a role for tools in a few words.
func toolsBrief(t api.ToolRules) string {
	var out []string
	for _, l := range []struct {
		what string
		n    int
	}{{"approve", len(t.AutoApprove)}, {"deny", len(t.AutoDeny)}, {"ask", len(t.Ask)}} {
		if l.n > 0 {
			out = append(out, l.what+" "+api.Count(l.n, "rule"))
		}
	}
	return strings.Join(append(out, "else "+string(cmp.Or(t.Default, api.VerdictAsk))), ", ")
}

func (a *app) rolesShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a role: its rules, its model, its agents and what is remembered for them",
		Args:              takes(1, 1, "the NAME of a role"),
		ValidArgsFunction: a.completeRoles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText("NAME", args[0], maxText); err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				r, err := c.Role(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: r, names: []string{r.Name}, human: func(p *page) { rolePage(p, r) }})
			})
		},
	}
}

func rolePage(p *page, r api.Role) {
	p.line("role %s", r.Name)
	field := p.fields(14)
	field("model", r.Model)
	for _, t := range slices.Sorted(maps.Keys(r.Models)) {
		field("model", r.Models[t]+" (base type "+t+")")
	}
	field("read", r.Policy.Read...)
	field("write", r.Policy.Write...)
	field("ask", r.Policy.Ask...)
	field("deny", r.Policy.Deny...)
	field("hide", r.Policy.Hide...)
	field("exclusive", r.Policy.Exclusive...)
	field("tools denied", r.Tools.AutoDeny...)
	field("tools asked", r.Tools.Ask...)
	field("tools allowed", r.Tools.AutoApprove...)
	field("other tools", string(r.Tools.Default))
	field("egress", strings.Join(r.Egress, ", "))
	field("remote", r.Remote)
	field("env", strings.Join(r.Env, ", "))
	field("agents", strings.Join(r.Agents, ", "))
	for _, m := range r.Remembered {
		field("remembered", fmt.Sprintf("%s %s (%s, by %s)", m.Verdict, m.Text, m.ID, who(m.By)))
	}
}

func (a *app) rolesCheckCmd() *cobra.Command {
	var req api.RoleCheck
	var input, read, write string
	cmd := &cobra.Command{
		Use:   "check ROLE {TOOL [TEXT...] [--input JSON] | --read PATH | --write PATH}",
		Short: "Find out what would be decided about a request, and why",
		Long: `Find out what a role decides about a call of a tool, or about a path that a process
uses: approve, deny or ask, with the rule or the remembered answer that decides.
It opens no question and changes nothing.

TOOL is a tool's name in rules (read_file, write_file, bash, ...) or in an agent's
program (Read, apply_patch, run_shell_command, ...). TEXT is its path, command or
address. With --agent the agent's own rules and answers decide, too. Leases of other
agents are not considered: polisctl locks lists them.

The exit status is 5 if it is denied, and 0 if it is approved or a person decides.`,
		Example: `  polisctl roles check simple-fix bash -- go test -v ./...
  polisctl roles check simple-fix write_file deploy/prod.yaml
  polisctl roles check simple-fix --write deploy/prod.yaml --agent claude`,
		Args:              takes(1, -1, "the name of a ROLE"),
		ValidArgsFunction: a.completeRoles,
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "the arguments of the tool, an object in `JSON`")
	f.StringVar(&read, "read", "", "a process reads this `PATH`")
	f.StringVar(&write, "write", "", "a process changes this `PATH`")
	f.StringVar(&req.Agent, "agent", "", "an `AGENT` of the role")
	f.StringVar(&req.BaseType, "base", "", "the base `TYPE` whose program calls the tool")
	f.StringVarP(&req.Workspace, "workspace", "w", "", "with the answers remembered in this `WORKSPACE` only")
	_ = cmd.RegisterFlagCompletionFunc("agent", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeAgents(cmd, nil, word)
	}) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Role = args[0]
		if err := checkText("ROLE", req.Role, maxText); err != nil {
			return err
		}
		if read != "" && write != "" {
			return usagef("--read and --write cannot be used together")
		}
		req.Path, req.Write = cmp.Or(read, write), write != ""
		switch {
		case req.Path != "" && (len(args) > 1 || input != ""):
			return usagef("--read and --write take no TOOL")
		case req.Path == "" && len(args) < 2:
			return usagef("%s needs a TOOL, --read or --write", cmd.CommandPath())
		case input != "" && len(args) > 2:
			return usagef("--input and TEXT cannot be used together")
		}
		if req.Path == "" {
			req.Tool, req.Text = args[1], strings.Join(args[2:], " ")
		}
		if input != "" {
			if err := json.Unmarshal([]byte(input), &req.Input); err != nil || req.Input == nil {
				return usagef("--input is no object in JSON")
			}
		}
		for what, text := range map[string]string{"TOOL": req.Tool, "TEXT": req.Text, "PATH": req.Path, "--input": input} {
			if text == "" {
				continue
			}
			if err := checkText(what, text, maxCheckText); err != nil {
				return err
			}
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			d, err := c.CheckRole(ctx, req)
			if err != nil {
				return err
			}
			if err := a.show(view{json: d, names: []string{string(d.Verdict)}, human: func(p *page) { decisionPage(p, d) }}); err != nil {
				return err
			}
			if d.Verdict == api.VerdictDeny {
				return childStatus(exitForbidden)
			}
			return nil
		})
	}
	return cmd
}
