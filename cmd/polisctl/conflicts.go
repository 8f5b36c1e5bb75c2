package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) conflictsCmd() *cobra.Command {
	var watch bool
	var workspace string
	cmd := &cobra.Command{
		Use:   "conflicts [--watch]",
		Short: "Show branches that would conflict, and files that several agents change",
		Long: `Show which branches would conflict. Whenever a branch moves, polisd tries to merge
it with the target branch and with every other agent's branch, without changing
anything. Below that, show the paths that more than one agent has changed since
its branch left the target, that one has leased and another has changed, or that
have waiters. Only commits are tried; a star marks uncommitted changes.

The same as events: polisctl events -f shows conflict:found and conflict:gone.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			all, err := c.Conflicts(ctx, workspace)
			if err != nil {
				return view{}, err
			}
			return conflictsView(list(all)), nil
		})
	}
	return cmd
}

func conflictsView(all []api.Conflicts) view {
	var paths []string
	for _, c := range all {
		for _, m := range c.Merges {
			paths = append(paths, m.Paths...)
		}
		for _, p := range c.Paths {
			paths = append(paths, p.Path)
		}
	}
	slices.Sort(paths)
	return view{json: map[string]any{"conflicts": all}, names: slices.Compact(paths), human: func(p *page) {
		if len(all) == 0 {
			p.line("no workspace with git")
		}
		for i, c := range all {
			if i > 0 {
				p.line("")
			}
			if len(all) > 1 {
				p.line("workspace %s", c.Workspace)
			}
			conflictsPage(p, c)
		}
	}}
}

func conflictsPage(p *page, c api.Conflicts) {
	for _, e := range c.Errors {
		p.warn("%s", e)
	}
	if c.Pending {
		p.warn("this is what the last look found; another one is under way")
	}
	if c.Skipped > 0 {
		p.warn("%s were not tried: there are too many branches", api.Count(c.Skipped, "merge"))
	}
	for _, b := range c.Branches {
		if b.Truncated {
			p.warn("agent %s changes more paths than are compared", b.Agent)
		}
	}
	rows := make([][]cell, 0, len(c.Merges))
	for _, m := range c.Merges {
		what := cell{text: named(m.Paths, m.Total)}
		if m.Error != "" {
			what = cell{m.Error, red}
		}
		rows = append(rows, []cell{{strings.Join(m.Branches, " with "), yellow}, {text: p.ago(m.Since)}, {text: fmt.Sprint(m.Total)}, what})
	}
	p.table("every branch merges", []string{"CONFLICT", "SINCE", "FILES", "PATHS"}, rows)
	if slices.ContainsFunc(c.Merges, func(m api.ConflictMerge) bool { return m.Error == "" && m.Total > fewNamed }) {
		p.line("polisctl -q conflicts lists the paths one by one")
	}
	p.line("")
	rows, star := make([][]cell, 0, len(c.Paths)), false
	for _, x := range c.Paths {
		var who []string
		for _, ch := range x.ChangedBy {
			name := ch.Agent
			if ch.Uncommitted {
				name, star = name+"*", true
			}
			who = append(who, name)
		}
		rows = append(rows, []cell{{text: x.Path}, {text: strings.Join(who, ", ")}, {text: strings.Join(x.LeasedBy, ", ")}, {strings.Join(x.AwaitedBy, ", "), yellow}})
	}
	p.table("no path is changed by two agents", []string{"PATH", "CHANGED BY", "LEASED BY", "AWAITED BY"}, rows)
	if more := c.PathsTotal - len(c.Paths); more > 0 {
		p.line("and %s more: polisctl agents diff NAME --name-only lists all that an agent has changed", api.Count(more, "path"))
	}
	if star {
		p.line("* in no commit yet")
	}
}

// fewNamed is how many paths of a conflict are shown.
const fewNamed = 3

// named writes the first few of total paths.
func named(paths []string, total int) string {
	text := strings.Join(paths[:min(len(paths), fewNamed)], ", ")
	if total > fewNamed {
		text += fmt.Sprintf(", and %d more", total-fewNamed)
	}
	return text
}
