package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) queueCmd() *cobra.Command {
	var watch bool
	var workspace string
	cmd := &cobra.Command{
		Use:   "queue [--watch]",
		Short: "Show and change the merge queue",
		Long: `Show the merge queue of each workspace: the waiting branches in the order of merging,
and the results of the last ones, with their tasks. When a task ends with exit code 0,
its agent's branch enters the queue, unless auto_merge is off. polisctl merge puts a
branch before those and waits for it. One batch is merged, and checked, at a time.
The column CHECK has the number of a check for polisctl queue log.`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return group(cmd, args)
		}
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			all, err := c.Queues(ctx, workspace)
			if err != nil {
				return view{}, err
			}
			return queueView(list(all)), nil
		})
	}
	cmd.AddCommand(a.queueAddCmd(), a.queueRemoveCmd(), a.queuePriorityCmd(), a.queueReworkCmd(), a.queueLogCmd())
	return cmd
}

func queueView(all []api.Queue) view {
	var names []string
	for _, q := range all {
		for _, e := range q.Entries {
			names = append(names, e.Agent)
		}
	}
	return view{json: map[string]any{"queues": all}, names: names, human: func(p *page) {
		if len(all) == 0 {
			p.line("no workspace with git")
		}
		for i, q := range all {
			if i > 0 {
				p.line("")
			}
			p.line("%s into %s", q.Workspace, clean(q.Target))
			rows := make([][]cell, 0, len(q.Entries))
			for _, e := range q.Entries {
				state := cell{text: string(e.State)}
				if e.State != api.QueueWaiting {
					state = cell{string(e.State), green}
				}
				rows = append(rows, []cell{{text: e.Agent}, state, {text: strconv.Itoa(e.Priority)}, {text: who(e.By)}, {text: p.ago(e.AddedAt)}, {text: strings.Join(e.Tasks, ", ")}})
			}
			p.table("no agent waits to be merged", []string{"AGENT", "STATE", "PRIORITY", "BY", "AGE", "TASK"}, rows)
			queueRecent(p, q)
			for _, s := range q.Signals {
				if line := reworkLine(s); line != "" {
					p.line("%s", line)
				}
			}
		}
	}}
}

func queueRecent(p *page, q api.Queue) {
	if len(q.Recent) == 0 {
		return
	}
	p.line("")
	rows := make([][]cell, 0, len(q.Recent))
	for _, o := range q.Recent {
		what := cell{"merged as " + short(o.MergeCommitSHA), green}
		if o.Code != "" {
			what = cell{string(o.Code) + ": " + clean(o.Message), red}
		}
		rows = append(rows, []cell{{text: o.Agent}, {text: strings.Join(o.Tasks, ", ")}, {text: p.ago(o.At)}, {text: checkNumber(q.Signals, o)}, what})
	}
	p.table("", []string{"LAST", "TASK", "AGE", "CHECK", "OUTCOME"}, rows)
}

// checkNumber is the number of an outcome's check for polisctl queue log: 1 is the agent's last one. It is empty if there
// was none.
func checkNumber(signals []api.MergeSignal, o api.QueueOutcome) string {
	n := 0
	for _, s := range slices.Backward(signals) {
		if s.Agent != o.Agent || s.Log == "" || s.Ended == nil {
			continue
		}
		if n++; s.ID == o.ID {
			return strconv.Itoa(n)
		}
	}
	return ""
}

func (a *app) queueAddCmd() *cobra.Command {
	var req api.QueueRequest
	cmd := &cobra.Command{
		Use:   "add NAME... [--priority N] [--no-check] [--accept-protected] [--remove-after] [-m MESSAGE]",
		Short: "Put agents in the merge queue, and do not wait",
		Long: `Put agents' branches in the merge queue, and do not wait for the merge. Higher
priorities go first, then earlier entries. An agent that already waits keeps its place.`,
		Args:              takes(1, -1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().IntVarP(&req.Priority, "priority", "p", 0, "from -1000 to 1000")
	cmd.Flags().BoolVar(&req.NoCheck, "no-check", false, "merge without the check command")
	cmd.Flags().BoolVar(&req.AcceptProtected, "accept-protected", false, "also merge changes of protected paths")
	cmd.Flags().BoolVar(&req.RemoveAfter, "remove-after", false, "remove the agent when it is merged, unless it has other work")
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "the merge commit's `MESSAGE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			return a.each(args, "queueing agent ", func(name string) error {
				r := req
				r.Agent = name
				e, err := c.Enqueue(ctx, r)
				if err != nil {
					return err
				}
				return a.show(view{json: e, names: []string{e.Agent}, human: func(p *page) { p.line("agent %s is in the merge queue", e.Agent) }})
			})
		})
	}
	return cmd
}

func (a *app) queueRemoveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove NAME...",
		Aliases: []string{"rm"},
		Short:   "Take agents out of the merge queue",
		Long: `Take agents out of the merge queue. A running check of such an agent ends; the
others in its batch continue.`,
		Args:              takes(1, -1, "the NAME of an agent"),
		ValidArgsFunction: a.completeQueued,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			return a.each(args, "removing from the queue: ", func(name string) error {
				if err := c.Dequeue(ctx, name); err != nil {
					return err
				}
				return a.show(view{json: map[string]string{"removed": name}, human: func(p *page) { p.line("agent %s is out of the merge queue", name) }})
			})
		})
	}
	return cmd
}

func (a *app) queuePriorityCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "priority NAME N",
		Short:             "Give an agent in the merge queue another priority",
		Long:              `Give an agent in the merge queue another priority, from -1000 to 1000; put -- before a negative one.`,
		Args:              takes(2, 2, "the NAME of an agent and a priority"),
		ValidArgsFunction: a.completeQueued,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		n, err := strconv.Atoi(args[1])
		if err != nil || n < -1000 || n > 1000 {
			return usagef("priority %q is not valid: a number from -1000 to 1000", clean(args[1]))
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			if err := c.Prioritize(ctx, args[0], n); err != nil {
				return err
			}
			return a.show(view{json: map[string]any{"agent": args[0], "priority": n}, human: func(p *page) { p.line("agent %s has priority %d", args[0], n) }})
		})
	}
	return cmd
}

// mergeAll merges every agent that has something to merge; the daemon puts
// them in one queue.
func (a *app) mergeAll(ctx context.Context, c *client.Client, req api.MergeRequest, workspace string) error {
	agents, err := c.Agents(ctx, workspace)
	if err != nil {
		return err
	}
	type done struct {
		resp api.MergeResponse
		err  error
	}
	results := make(chan done)
	n := 0
	for _, g := range agents {
		if g.Branch == "" {
			continue
		}
		n++
		go func() {
			resp, err := c.Merge(ctx, g.Name, req)
			resp.Agent = g.Name
			results <- done{resp, err}
		}()
	}
	var merged []api.MergeResponse
	var first error
	for range n {
		r := <-results
		switch {
		case r.err == nil:
			merged = append(merged, r.resp)
		case api.CodeOf(r.err) == api.CodeNothingToMerge:
		case first == nil:
			first = r.err
		default:
			a.complain(r.err)
		}
	}
	var names []string
	for _, r := range merged {
		names = append(names, r.Agent)
	}
	err = a.show(view{json: map[string]any{"merged": list(merged)}, names: names, human: func(p *page) {
		if len(merged) == 0 && first == nil {
			p.line("nothing to merge")
		}
		for _, r := range merged {
			p.line("%s", mergedLine(r))
		}
	}})
	if first != nil {
		return first
	}
	return err
}

func mergedLine(r api.MergeResponse) string {
	if r.DryRun {
		return fmt.Sprintf("%s would merge into %s without conflict", r.Branch, r.Target)
	}
	return fmt.Sprintf("%s is merged into %s as %s", r.Branch, r.Target, short(r.MergeCommitSHA))
}
