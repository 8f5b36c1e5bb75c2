package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/http/client"
)

func (a *app) startCmd() *cobra.Command {
	var force, program, attach bool
	cmd := a.powerCmd("start", "Make agents ready", "starting agent ", func(c *client.Client, ctx context.Context, name string) (api.Agent, error) {
		start := c.BringUp
		switch {
		case program && force:
			start = c.ForceStart
		case program:
			start = c.Start
		case force:
			start = c.ForceBringUp
		}
		return start(ctx, name)
	})
	cmd.Long = `Make agents ready: view, sandbox and ports. Without a NAME, all agents. An agent that
is ready is Idle; tasks that wait begin. An agent that is up stays as it is.

With --program the interactive program of each agent is started, too, in a terminal of
its own, which polisctl agents attach shows. While it runs, tasks wait. With --attach
this terminal is attached to it. If you detach or close the terminal, the program
continues; polisctl agents stop ends it.`
	cmd.Example = `  polisctl agents start claude && polisctl run claude "make the tests pass"
  polisctl agents start --attach claude`
	cmd.Flags().BoolVarP(&force, "force", "f", false, "start the agents even if the machine has no room for them")
	cmd.Flags().BoolVarP(&program, "program", "p", false, "start the program of each agent, too")
	cmd.Flags().BoolVar(&attach, "attach", false, "start the program of the agent, and attach to it")
	ready := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if !attach {
			return ready(cmd, names)
		}
		if len(names) != 1 || a.json || a.quiet {
			return usagef("%s --attach takes the NAME of one agent, and neither --json nor --quiet", cmd.CommandPath())
		}
		program = true
		if err := ready(cmd, names); err != nil {
			return err
		}
		return a.enter(cmd, names[0], ttyFlags{}, wire.ExecRequest{}, (*client.Client).AttachTo)
	}
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
			state := string(g.Status)
			if g.Status == api.StatusIdle {
				state += ", ready for a task"
			}
			p.line("agent %s is %s", g.Name, state)
			if text := agentWaits(g); text != "" {
				p.line("%s", text)
			}
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
