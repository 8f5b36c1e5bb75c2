package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) racesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "races COMMAND",
		Short: "List races, show, choose the winner of, and cancel one",
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	cmd.AddCommand(a.racesListCmd(), a.racesShowCmd(), a.racesChooseCmd(), a.racesCancelCmd())
	return cmd
}

func (a *app) racesListCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:     "list [-w WORKSPACE]",
		Aliases: []string{"ls"},
		Short:   "List races, also those that have ended",
		Args:    takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only races in this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			all, err := c.Races(ctx, workspace)
			if err != nil {
				return err
			}
			ids := make([]string, 0, len(all))
			for _, x := range all {
				ids = append(ids, x.ID)
			}
			return a.show(view{json: map[string]any{"races": list(all)}, names: ids, human: func(p *page) {
				rows := make([][]cell, 0, len(all))
				for _, x := range all {
					rows = append(rows, []cell{{text: x.ID}, {text: string(x.State)}, {text: x.Workspace}, {text: fmt.Sprint(len(x.Racers))}, {text: x.Winner}, {text: p.ago(x.CreatedAt)}, {text: clean(api.Shorten(x.Request.Task, 50))}})
				}
				p.table("no races", []string{"ID", "STATE", "WORKSPACE", "AGENTS", "WINNER", "SINCE", "TASK"}, rows)
			}})
		})
	}
	return cmd
}

func (a *app) racesShowCmd() *cobra.Command {
	return a.oneRaceCmd("show ID", "Show a race and its agents", 1, func(ctx context.Context, c *client.Client, args []string) (api.Race, error) {
		return c.GetRace(ctx, args[0], 0)
	})
}

func (a *app) racesChooseCmd() *cobra.Command {
	return a.oneRaceCmd("choose ID AGENT", "Choose the winner of a race that waits for it", 2, func(ctx context.Context, c *client.Client, args []string) (api.Race, error) {
		return c.ChooseRace(ctx, args[0], args[1])
	})
}

func (a *app) racesCancelCmd() *cobra.Command {
	return a.oneRaceCmd("cancel ID", "End a race, and save the work of its agents in the trash", 1, func(ctx context.Context, c *client.Client, args []string) (api.Race, error) {
		return c.CancelRace(ctx, args[0])
	})
}

func (a *app) oneRaceCmd(use, short string, n int, do func(context.Context, *client.Client, []string) (api.Race, error)) *cobra.Command {
	what := "the ID of a race"
	if n == 2 {
		what += " and one of its agents"
	}
	return &cobra.Command{
		Use: use, Short: short, Args: takes(n, n, what), ValidArgsFunction: a.completeRaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, w := range args {
				if err := checkWord("race", w, 64); err != nil {
					return err
				}
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				x, err := do(ctx, c, args)
				if err != nil {
					return err
				}
				return a.showRace(x)
			})
		},
	}
}
