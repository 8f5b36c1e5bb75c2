package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

func (a *app) portsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ports COMMAND",
		Aliases: []string{"port"},
		Short:   "Map ports of agents to the host",
		Args:    cobra.ArbitraryArgs,
		RunE:    group,
	}
	cmd.AddCommand(a.portsListCmd(), a.portsAddCmd(), a.portsRemoveCmd())
	return cmd
}

func (a *app) portsListCmd() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:               "list [AGENT] [--watch]",
		Aliases:           []string{"ls"},
		Short:             "List port maps",
		Args:              takes(0, 1, "one AGENT"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "go on until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			if len(args) > 0 {
				if _, err := c.Agent(ctx, args[0]); err != nil {
					return view{}, err
				}
			}
			ports, err := c.Ports(ctx)
			if err != nil {
				return view{}, err
			}
			kept := []api.PortMapping{}
			for _, m := range ports {
				if len(args) == 0 || m.Agent == args[0] {
					kept = append(kept, m)
				}
			}
			return portsView(kept), nil
		})
	}
	return cmd
}

func portsView(ports []api.PortMapping) view {
	var names []string
	for _, m := range ports {
		names = append(names, fmt.Sprint(m.External))
	}
	return view{json: map[string]any{"ports": ports}, names: names, human: func(p *page) {
		rows := make([][]cell, 0, len(ports))
		for _, m := range ports {
			made := "by hand"
			if m.Auto {
				made = "found listening"
			}
			rows = append(rows, []cell{
				{text: m.Agent}, {text: fmt.Sprint(m.Internal)}, {text: fmt.Sprintf("%s:%d", m.Bind, m.External)}, {text: m.Protocol}, {made, dim},
			})
		}
		p.table("no port maps", []string{"AGENT", "INTERNAL", "HOST", "PROTOCOL", "MADE"}, rows)
	}}
}

func (a *app) portsAddCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "add AGENT INTERNAL [EXTERNAL]",
		Short: "Map a port of an agent to the host",
		Long: `Map port INTERNAL of an agent to port EXTERNAL of the host; polisd chooses
EXTERNAL if it is not given.`,
		Args:              takes(2, 3, "AGENT, INTERNAL and maybe EXTERNAL"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.PortRequest{Agent: args[0]}
			err := checkAgents(args[0])
			if err == nil {
				req.Internal, err = parsePort("internal port", args[1])
			}
			if err == nil && len(args) > 2 {
				req.External, err = parsePort("external port", args[2])
			}
			if err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				m, err := c.AddPort(ctx, req)
				if err != nil {
					return err
				}
				return a.show(view{json: m, names: []string{fmt.Sprint(m.External)}, human: func(p *page) {
					p.line("port %d of agent %s is at %s:%d", m.Internal, m.Agent, m.Bind, m.External)
				}})
			})
		},
	}
}

func (a *app) portsRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "remove AGENT INTERNAL",
		Aliases:           []string{"rm"},
		Short:             "Remove a port map",
		Args:              takes(2, 2, "AGENT and INTERNAL"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgents(args[0]); err != nil {
				return err
			}
			internal, err := parsePort("internal port", args[1])
			if err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				if err := c.RemovePort(ctx, args[0], internal); err != nil {
					return err
				}
				gone := map[string]any{"agent": args[0], "internal": internal}
				return a.show(view{json: gone, human: func(p *page) {
					p.line("port %d of agent %s is no longer mapped", internal, args[0])
				}})
			})
		},
	}
}
