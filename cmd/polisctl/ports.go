package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
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
		Use:     "list [AGENT] [--watch]",
		Aliases: []string{"ls"},
		Short:   "List port maps",
		Long: `List port maps. With --watch continue until interrupted: a terminal is redrawn when
something changes, elsewhere each change is a line; with --json a line is an
object with "change" (present, added, changed or removed) and "port".`,
		Args:              takes(0, 1, "one AGENT"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		look := func(ctx context.Context, c *client.Client) ([]api.PortMapping, error) { return portsOf(ctx, c, args) }
		if watch {
			return a.follow(cmd, func(ctx context.Context, c *client.Client) error { return a.watchPorts(ctx, c, look) })
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			ports, err := look(ctx, c)
			if err != nil {
				return err
			}
			agents, err := c.Agents(ctx, "")
			if err != nil {
				return err
			}
			v := portsView(ports)
			maps := v.human
			v.human = func(p *page) {
				maps(p)
				for _, text := range unmapped(agents, args) {
					p.line("%s", text)
				}
			}
			return a.show(v)
		})
	}
	return cmd
}

// portsOf lists the maps of one agent, or of all.
func portsOf(ctx context.Context, c *client.Client, agents []string) ([]api.PortMapping, error) {
	if len(agents) > 0 {
		if _, err := c.Agent(ctx, agents[0]); err != nil {
			return nil, err
		}
	}
	ports, err := c.Ports(ctx)
	if err != nil {
		return nil, err
	}
	kept := []api.PortMapping{}
	for _, m := range ports {
		if len(agents) == 0 || m.Agent == agents[0] {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

func portsView(ports []api.PortMapping) view {
	var names []string
	named := false
	for _, m := range ports {
		names = append(names, fmt.Sprint(m.External))
		named = named || m.URL != ""
	}
	return view{json: map[string]any{"ports": ports}, names: names, human: func(p *page) {
		head := []string{"AGENT", "INTERNAL", "HOST", "PROTOCOL", "STATE", "MADE"}
		if named {
			head = append(head, "URL")
		}
		rows := make([][]cell, 0, len(ports))
		for _, m := range ports {
			made, state := "by hand", cell{"open", plain}
			if m.Auto {
				made = "found listening"
			}
			if !m.Served {
				state = cell{"agent is not running", dim}
			}
			row := []cell{{text: m.Agent}, {text: fmt.Sprint(m.Internal)}, {text: hostPort(m)}, {text: m.Protocol}, state, {made, dim}}
			if named {
				row = append(row, cell{text: m.URL})
			}
			rows = append(rows, row)
		}
		p.table("no port maps", head, rows)
	}}
}

func (a *app) portsAddCmd() *cobra.Command {
	var bind string
	cmd := &cobra.Command{
		Use:   "add AGENT INTERNAL [EXTERNAL] [--bind ADDRESS]",
		Short: "Map a port of an agent to the host",
		Long: `Map port INTERNAL of an agent to port EXTERNAL of the host; polisd chooses
EXTERNAL if it is not given, and the next free one if it is in use. INTERNAL is
a port such as 3000, one for UDP such as 5000/udp, or a range such as 8000-8010
or 8000-8010/udp, which is mapped as a whole to as many ports in a row, or not
at all.

A map that polis made automatically becomes permanent: it stays when no program
listens on the port. The maps of an agent that is not running are served from its
next start.`,
		Example: `  polisctl ports add claude 3000
  polisctl ports add claude 5000/udp 4000
  polisctl ports add claude 8000-8010 --bind 0.0.0.0`,
		Args:              takes(2, 3, "AGENT, INTERNAL and maybe EXTERNAL"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVar(&bind, "bind", "", "`ADDRESS` of the host to listen on (default as configured, which is 127.0.0.1); 0.0.0.0 and :: let the network in")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		inner, err := parsePortSpec("internal port", args[1])
		if err != nil {
			return err
		}
		req := api.PortRequest{Agent: args[0], Internal: inner.first}
		if inner.count() > 1 {
			req.Last = inner.last
		}
		if inner.protocol != api.ProtoTCP {
			req.Protocol = inner.protocol
		}
		if len(args) > 2 {
			if req.External, err = parseExternal(args[2], inner); err != nil {
				return err
			}
		}
		if req.Bind, err = parseBind(bind); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			added, err := c.AddPort(ctx, req)
			if err != nil {
				return err
			}
			return a.showPorts(added)
		})
	}
	return cmd
}

func (a *app) showPorts(added api.PortsAdded) error {
	var names []string
	for _, m := range added.Ports {
		names = append(names, fmt.Sprint(m.External))
	}
	return a.show(view{json: added, names: names, human: func(p *page) {
		for _, m := range added.Ports {
			when := ""
			if !m.Served {
				when = " when it runs"
			}
			p.line("port %s of agent %s is at %s%s", innerPort(m), m.Agent, hostPort(m), when)
			if m.URL != "" {
				p.line("  and at %s", m.URL)
			}
		}
		if text := moved(added.PortMapping); text != "" {
			p.warn("%s", text)
		}
	}})
}

func (a *app) portsRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove AGENT INTERNAL",
		Aliases: []string{"rm"},
		Short:   "Remove a port map",
		Long: `Remove a port map, or the maps of a range such as 8000-8010 (all must exist).
A UDP port is written as 5000/udp. polis does not map the port again automatically,
until ports add.`,
		Args:              takes(2, 2, "AGENT and INTERNAL"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgents(args[0]); err != nil {
				return err
			}
			inner, err := parsePortSpec("internal port", args[1])
			if err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				if err := c.RemovePort(ctx, args[0], inner.protocol, inner.first, inner.last); err != nil {
					return err
				}
				gone := map[string]any{"agent": args[0], "internal": inner.first, "last": inner.last, "protocol": inner.protocol}
				return a.show(view{json: gone, human: func(p *page) {
					p.line("port %s of agent %s is no longer mapped", inner, args[0])
				}})
			})
		},
	}
}
