package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) metricsCmd() *cobra.Command {
	var prometheus bool
	cmd := &cobra.Command{
		Use:   "metrics [--prometheus] [AGENT]",
		Short: "Show the counters of agents",
		Long: `Show how much agents read and wrote, what they were refused and how long
accesses took on average. --prometheus prints all numbers of polisd in
Prometheus text form.`,
		Args:              takes(0, 1, "one AGENT"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&prometheus, "prometheus", false, "print Prometheus text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if prometheus && a.json {
			return usagef("--prometheus and --json cannot be used together")
		}
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			if prometheus {
				return a.prometheus(ctx, c, args)
			}
			if len(args) > 0 {
				agent, err := c.Agent(ctx, args[0])
				if err != nil {
					return err
				}
				return a.showMetrics(tidy(agent), []api.Agent{agent})
			}
			agents, err := c.Agents(ctx, "")
			if err != nil {
				return err
			}
			return a.showMetrics(map[string]any{"agents": agentsOf(agents)}, agents)
		})
	}
	return cmd
}

func (a *app) showMetrics(json any, agents []api.Agent) error {
	var names []string
	var rows [][]cell
	for _, g := range agents {
		names = append(names, g.Name)
		n := api.Counters{}
		if g.Counters != nil {
			n = *g.Counters
		}
		num := func(v int64) cell { return cell{text: fmt.Sprint(v)} }
		rows = append(rows, []cell{
			{text: g.Name}, num(n.ReadCount), num(n.WriteCount), refusals(n.ReadDenied), refusals(n.WriteDenied), refusals(n.LockConflicts),
			{text: time.Duration(n.AvgReadLatency).String()}, {text: time.Duration(n.AvgWriteLatency).String()}, {text: size(g.MemoryBytes)},
		})
	}
	return a.show(view{json: json, names: names, human: func(p *page) {
		p.table("no agents", []string{"NAME", "READS", "WRITES", "READS DENIED", "WRITES DENIED", "LOCK CONFLICTS", "READ TIME", "WRITE TIME", "MEMORY"}, rows)
	}})
}

func refusals(n int64) cell {
	if n > 0 {
		return cell{fmt.Sprint(n), yellow}
	}
	return cell{text: "0"}
}

// prometheus prints the daemon's numbers, or only the samples of one agent.
func (a *app) prometheus(ctx context.Context, c *client.Client, args []string) error {
	want := ""
	if len(args) > 0 {
		if _, err := c.Agent(ctx, args[0]); err != nil {
			return err
		}
		want = `agent="` + args[0] + `"`
	}
	body, err := c.Metrics(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), 1<<20)
	var out strings.Builder
	for lines.Scan() {
		line := lines.Text()
		if want == "" || strings.Contains(line, want) {
			out.WriteString(line + "\n")
		}
	}
	if err := lines.Err(); err != nil {
		return api.Errorf(api.CodeUnavailable, "read metrics: %w", err)
	}
	if a.quiet {
		return nil
	}
	return a.write([]byte(out.String()))
}
