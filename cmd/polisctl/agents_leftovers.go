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

func (a *app) leftoversCmd() *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:   "leftovers NAME [--end]",
		Short: "Show or end what an agent's last command left running",
		Long: `Show the processes that an agent's last command or task left running when it ended,
such as a server or a hub, with their memory and ports. With --end end them: they get
SIGTERM, and SIGKILL if they do not end. leftovers of a role in polisd.toml sets the automatic
action. Open shells are not included.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&end, "end", false, "end these processes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		ask, limit := (*client.Client).Leftovers, shortCall
		if end {
			ask, limit = (*client.Client).EndLeftovers, longCall
		}
		return a.call(cmd, limit, func(ctx context.Context, c *client.Client) error {
			res, err := ask(c, ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(leftoversView(args[0], res, end))
		})
	}
	return cmd
}

func leftoversView(name string, res api.Leftovers, end bool) view {
	var pids []string
	rows := make([][]cell, 0, len(res.Leftovers))
	for _, l := range res.Leftovers {
		pids = append(pids, strconv.Itoa(l.PID))
		rows = append(rows, []cell{{text: strconv.Itoa(l.PID)}, {text: l.Program}, {text: size(l.MemoryBytes)}, {text: leftoverPorts(l)}, {text: l.Command}})
	}
	return view{json: res, names: pids, human: func(p *page) {
		if end {
			p.line("%d ended", res.Ended)
			if len(rows) == 0 {
				return
			}
		}
		p.table("the last command of agent "+name+" left nothing running", []string{"PID", "PROGRAM", "MEMORY", "PORTS", "COMMAND"}, rows)
	}}
}

func leftoverPorts(l api.Leftover) string {
	var out []string
	for _, p := range l.Ports {
		text := strconv.Itoa(p.Port)
		if p.Protocol != api.ProtoTCP {
			text += "/" + p.Protocol
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// leftText describes an agent whose last command left something running.
func leftText(g api.Agent) string {
	var bytes int64
	var names []string
	for _, l := range g.Leftovers {
		bytes += l.MemoryBytes
		text := l.Program
		if ports := leftoverPorts(l); ports != "" {
			text += " on port " + ports
		}
		names = append(names, text)
	}
	const shown = 3
	if n := len(names) - shown; n > 0 {
		names = append(names[:shown], fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("%s: its last command left running: %s (%s); polisctl agents leftovers %s", g.Name, strings.Join(names, ", "), size(bytes), g.Name)
}
