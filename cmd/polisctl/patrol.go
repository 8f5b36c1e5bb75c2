package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) patrolCmd() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "patrol [--watch]",
		Short: "Show which agents died, hang or spin",
		Long: `Show the last cycle of the patrol: for each agent that lives, for how long
it has made no progress and for how long it has changed nothing; the agents in state
Error; and the findings of the patrol, with the evidence, its actions, and what you can do.

The patrol reads the state of the kernel and of the agents in every [patrol] interval.
It finds agents whose shim or program is gone, programs that continue after their task
has ended, and agents that are stalled (no progress, and they wait for nothing) or
spin (they work, and change nothing). on_stall of their role sets the action
for the last two; by default the patrol only reports them.

An ephemeral agent whose work has ended is removed if all of the work is stored
elsewhere: no uncommitted file, no stash, and every commit in the target branch or in
the default branch of a remote. Otherwise it stays, with the reason. The patrol
removes no other worktree, branch or file.`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return group(cmd, args)
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			rep, err := c.LastPatrol(ctx)
			return patrolView(rep), err
		})
	}
	cmd.AddCommand(a.patrolRunCmd(), a.patrolCasesCmd(), a.patrolShowCmd(), a.patrolResolveCmd())
	return cmd
}

func (a *app) patrolRunCmd() *cobra.Command {
	var once, dryRun bool
	cmd := &cobra.Command{
		Use:   "run --once [--dry-run]",
		Short: "Do a cycle of the patrol now",
		Long: `Run a cycle of the patrol now, and show its evidence, findings and actions. polisd
runs a cycle in every [patrol] interval, so --once is required. With --dry-run the
patrol takes no action.`,
		Example: "  polisctl patrol run --once --dry-run --json",
		Args:    takes(0, 0, ""),
	}
	cmd.Flags().BoolVar(&once, "once", false, "run one cycle and exit")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "report findings and take no action")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !once && !dryRun {
			return usagef("polisd does the patrol: only a single cycle can be run").WithHint("polisctl patrol run --once; polisctl patrol --watch follows the patrol of polisd")
		}
		return a.call(cmd, 0, func(ctx context.Context, c *client.Client) error {
			rep, err := c.Patrol(ctx, api.PatrolRequest{DryRun: dryRun})
			if err != nil {
				return err
			}
			return a.show(patrolView(rep))
		})
	}
	return cmd
}

func patrolView(rep api.PatrolReport) view {
	var names []string
	failed, unseen := 0, 0
	for _, f := range rep.Findings {
		names = append(names, f.Agent)
	}
	for _, a := range rep.Agents {
		if a.Status == api.StatusError {
			failed++
			names = append(names, a.Agent)
		}
		if a.Error != "" {
			unseen++
		}
	}
	return view{json: rep, names: names, human: func(p *page) {
		if rep.At.IsZero() {
			p.line("the patrol has checked nothing yet; [patrol] interval says how often it does")
			return
		}
		rows := make([][]cell, 0, len(rep.Agents))
		for _, a := range rep.Agents {
			what := cell{text: a.Waits}
			if a.Error != "" {
				what = cell{"not observed: " + clean(a.Error), yellow}
			}
			quiet, unchanged := "-", "-"
			if a.Status == api.StatusRunning && a.Error == "" {
				quiet, unchanged = span(duration(a.QuietSeconds)), span(duration(a.UnchangedSeconds))
			}
			rows = append(rows, []cell{{text: a.Agent}, statusCell(a.Status), {text: a.Task}, {text: quiet}, {text: unchanged}, what})
		}
		p.table("no agent lives", []string{"AGENT", "STATE", "TASK", "QUIET", "UNCHANGED", "WAITS FOR"}, rows)
		p.line("")
		if len(rep.Findings) == 0 {
			what := "nothing is wrong"
			if failed > 0 || unseen > 0 || rep.Cases.Open > 0 {
				what = "the patrol has no new finding"
			}
			p.line("%s (checked %s ago, in %d ms)", what, p.ago(rep.At), rep.Millis)
		}
		for _, a := range rep.Agents {
			if a.Status == api.StatusError {
				p.warn("%s: in state Error: %s", a.Agent, clean(cmp.Or(a.Reason, "no reason is recorded")))
				p.line("  next: polisctl agents start %s", a.Agent)
			}
		}
		for _, f := range rep.Findings {
			findingPage(p, f)
		}
		for _, c := range rep.Cleanups {
			cleanupPage(p, c)
		}
		if n := rep.Cases.Open; n > 0 {
			p.line("%s open: polisctl patrol cases", api.Count(n, "case"))
		}
	}}
}

func cleanupPage(p *page, c api.Cleanup) {
	p.line("%s: %s: %s", c.Agent, clean(c.Why), c.Status)
	for _, e := range c.Evidence {
		p.line("  seen: %s", clean(e))
	}
	switch {
	case c.Skipped != "":
		p.line("  not done (%s): %s", c.Action, clean(c.Skipped))
	case c.Done && c.Trash != "":
		p.line("  removed; its work is kept as %s", c.Trash)
	case c.Done:
		p.line("  removed")
	default:
		p.line("  kept")
	}
	if c.Next != "" {
		p.line("  next: %s", clean(c.Next))
	}
}

func findingPage(p *page, f api.PatrolFinding) {
	p.warn("%s: %s for %s", f.Agent, f.Class, p.ago(f.Since))
	for _, e := range f.Evidence {
		p.line("  seen: %s", clean(e))
	}
	switch {
	case f.Done:
		p.line("  done: %s", f.Action)
	case f.Skipped != "":
		p.line("  not done (%s): %s", f.Action, clean(f.Skipped))
	}
	p.line("  next: %s", clean(strings.TrimSpace(f.Next)))
}

func duration(seconds float64) time.Duration { return time.Duration(seconds) * time.Second }
