package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

func (a *app) startCmd() *cobra.Command {
	var force bool
	cmd := a.powerCmd("start", "Start agents", "starting agent ", func(c *client.Client, ctx context.Context, name string) (api.Agent, error) {
		if force {
			return c.ForceStart(ctx, name)
		}
		return c.Start(ctx, name)
	})
	cmd.Flags().BoolVarP(&force, "force", "f", false, "start the agents even if the machine has no room for them")
	return cmd
}

func (a *app) stopCmd() *cobra.Command {
	return a.powerCmd("stop", "Stop agents: end their processes, keep their work", "stopping agent ", (*client.Client).Stop)
}

// powerCmd is start or stop.
func (a *app) powerCmd(verb, short, doing string, do func(*client.Client, context.Context, string) (api.Agent, error)) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:               verb + " [NAME...]",
		Short:             short,
		Long:              short + ". Without a NAME, all agents.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, verb+" all agents, as without a NAME")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if all && len(names) > 0 {
			return usagef("%s takes either the NAME of an agent or --all", cmd.CommandPath())
		}
		all := len(names) == 0
		if err := checkAgents(names...); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			if all {
				agents, err := c.Agents(ctx, "")
				if err != nil {
					return err
				}
				names = namesOf(agents)
			}
			var done []api.Agent
			err := a.each(names, doing, func(name string) error {
				agent, err := do(c, ctx, name)
				if err == nil {
					done = append(done, agent)
				}
				return err
			})
			return a.showPowered(!all && len(names) == 1, done, err)
		})
	}
	return cmd
}

func (a *app) showPowered(one bool, done []api.Agent, err error) error {
	if len(done) == 0 && err != nil {
		return err
	}
	v := agentsView(done)
	v.human = func(p *page) {
		for _, g := range done {
			p.line("agent %s is %s", g.Name, g.Status)
		}
		if len(done) == 0 {
			p.line("no agents")
		}
	}
	if one {
		v.json = tidy(done[0])
	}
	if werr := a.show(v); werr != nil && err == nil {
		return werr
	}
	return err
}
