package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) patrolCasesCmd() *cobra.Command {
	var workspace string
	var all, watch bool
	cmd := &cobra.Command{
		Use:   "cases [--all] [--workspace W] [--watch]",
		Short: "List open cases of the patrol, oldest first",
		Long: `List the open cases. A case is pending (an agent stays, or is held, until a person
decides), merge-requested (its branch waits for the merge queue) or zombie-detected
(the agent died). A case of an agent whose program runs, but hangs or spins, is shown
as "needs you"; in --json it is zombie-detected, too. A person resolves a case, or the
patrol does when the cause no longer exists. --all also lists the last resolved cases.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only cases of this `WORKSPACE`")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "include resolved cases")
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			found, err := c.Cases(ctx, workspace, all)
			return casesView(found), err
		})
	}
	return cmd
}

func casesView(all []api.Case) view {
	var ids []string
	rows := make([][]cell, 0, len(all))
	for _, c := range all {
		state, evidence := cell{c.StateText(), yellow}, strings.Join(c.Evidence, "; ")
		if c.Resolution != nil {
			state, evidence = cell{c.StateText(), dim}, resolution(c)
		}
		ids = append(ids, c.ID)
		rows = append(rows, []cell{{text: c.ID}, state, {text: c.Agent}, {text: c.Kind}, {text: firstLine(evidence, 80)}})
	}
	return view{json: map[string]any{"cases": list(all)}, names: ids, human: func(p *page) {
		for i := range rows {
			rows[i] = slices.Insert(rows[i], 2, cell{text: p.ago(all[i].Opened)})
		}
		p.table("no case is open", []string{"ID", "STATE", "OPENED", "AGENT", "KIND", "WHAT"}, rows)
	}}
}

func (a *app) patrolShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show CASE",
		Short:             "Show a case: evidence, what would resolve it, what you can do",
		Args:              takes(1, 1, "the ID of a case"),
		ValidArgsFunction: a.completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText("CASE", args[0], maxText); err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				v, err := c.Case(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: v, names: []string{v.ID}, human: func(p *page) { casePage(p, v) }})
			})
		},
	}
}

func casePage(p *page, c api.Case) {
	p.line("%s of agent %s: %s, %s", c.ID, c.Agent, c.Kind, c.StateText())
	field := p.fields(11)
	field("workspace", c.Workspace)
	field("task", c.Task)
	field("opened", p.ago(c.Opened)+" ago, found "+api.Count(c.Seen, "time"))
	if c.Escalated > 0 {
		field("escalated", api.Count(c.Escalated, "time"))
	}
	for _, e := range c.Evidence {
		field("seen", e)
	}
	if c.Resolution != nil {
		field("resolved", p.ago(c.Resolution.At)+" ago "+resolution(c))
		return
	}
	field("ends when", c.Resolves)
	field("next", c.Next)
	field("rewind to", c.Rewind)
}

// resolution is how a case ended, in words.
func resolution(c api.Case) string {
	text := "by the facts"
	if c.Resolution.By != "" {
		text = "by " + who(c.Resolution.By)
	}
	if c.Resolution.How != "" {
		text += ": " + c.Resolution.How
	}
	return text
}

func (a *app) patrolResolveCmd() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "resolve CASE [--note TEXT]",
		Short: "Resolve a case: it is not opened again for the same incident",
		Long: `Resolve a case. The agent, its work and its processes are not changed. The same
incident does not open a case again; another incident of the agent does.`,
		Args:              takes(1, 1, "the ID of a case"),
		ValidArgsFunction: a.completeCases,
	}
	cmd.Flags().StringVar(&note, "note", "", "`TEXT` that is kept with the case")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkText("CASE", args[0], maxText); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			v, err := c.ResolveCase(ctx, args[0], api.ResolveRequest{Note: note})
			if err != nil {
				return err
			}
			return a.show(view{json: v, names: []string{v.ID}, human: func(p *page) { p.line("%s of agent %s is resolved", v.ID, v.Agent) }})
		})
	}
	return cmd
}

func (a *app) completeCases(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Cases(ctx, "", false)
		return casesView(all).names, err
	})
}
