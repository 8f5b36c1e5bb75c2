package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) replayCmd() *cobra.Command {
	var req api.ReplayRequest
	var keep, detach bool
	cmd := &cobra.Command{
		Use:   "replay TASK [--by-order] [--keep] [--name NAME] [--detach]",
		Short: "Run a task again with the recorded answers of its model services",
		Long: `Give a recorded task to a new agent of the same base type, role and rules, at the commit
where the task began. The requests of its program to model services are answered from
the recording (record = true in [models.NAME] or [gateway]); none is sent, and the agent
has no network. A request that is not recorded gets an error, which says how it differs.

At the end, print how many requests matched, and whether the files that the replay
committed are the same. The agent is removed; with --keep it stays. The exit status is 0
if all requests matched and the files are the same.`,
		Example: "  polisctl replay claude.3\n  polisctl replay claude.3 --keep --by-order",
		Args:    takes(1, 1, "the ID of a task"), ValidArgsFunction: a.completeTasks,
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "`NAME` of the new agent")
	cmd.Flags().BoolVar(&req.ByOrder, "by-order", false, "answer a request that is not recorded with the next recorded answer")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the agent")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "only start the replay, and keep the agent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkText("ID", args[0], maxText); err != nil {
			return err
		}
		if req.Name != "" {
			if err := api.CheckName(req.Name); err != nil {
				return usagef("--name: %w", err)
			}
		}
		var r api.Replay
		err := a.call(cmd, longCall, func(ctx context.Context, c *client.Client) (err error) {
			r, err = c.Replay(ctx, args[0], req)
			return err
		})
		switch {
		case err != nil:
			return err
		case detach:
			return a.show(view{json: r, names: []string{r.Agent}, human: func(p *page) {
				p.line("agent %s replays task %s as %s; see polisctl tasks show %s", r.Agent, r.Of, r.Task, r.Task)
			}})
		}
		return a.followReplay(cmd, r, keep)
	}
	return cmd
}

// followReplay waits for the end of a replay, shows it, and removes its agent unless keep is set.
func (a *app) followReplay(cmd *cobra.Command, r api.Replay, keep bool) error {
	c := a.client()
	defer c.Close()
	task := r.Task
	stays := fmt.Sprintf("polisctl tasks show %s shows its result, polisctl agents remove %s --force removes its agent", task, r.Agent)
	ctx, over, stop := a.followContext(cmd, following{
		what: "the replay of task " + r.Of, hint: stays,
		question: "Stop task " + task + "? y stops it",
		left:     "task " + task + " continues; " + stays,
		end:      func(ctx context.Context) error { _, err := c.CancelTask(ctx, task); return err },
		agents:   []string{r.Agent},
	})
	defer stop()
	p := a.progress("replay of task " + r.Of)
	defer p.done()
	if !r.Ended {
		err := a.pollToEnd(ctx, func() (bool, error) {
			now, err := c.Replayed(ctx, r.Agent, taskPoll)
			if err == nil {
				r = now
			}
			return r.Ended, err
		})
		if err != nil {
			return a.leftTask(ctx, err)
		}
	}
	p.done()
	over()
	if !keep {
		if _, err := c.Remove(ctx, r.Agent, true, false); err != nil {
			return err
		}
	}
	if err := a.show(view{json: r, names: []string{r.Task}, human: func(p *page) { replayPage(p, r) }}); err != nil {
		return err
	}
	if !r.Same() {
		return childStatus(exitFailure)
	}
	return nil
}

func replayPage(p *page, r api.Replay) {
	p.line("%s replayed %s: %s", r.Task, r.Of, r.Result)
	switch {
	case r.Unknown != "":
		p.line("  requests    not known: %s", r.Unknown)
	default:
		text := fmt.Sprintf("%d of %d recorded matched", r.Matched, r.Recorded)
		for _, n := range []struct {
			n    int
			what string
		}{{r.Repeated, "repeated"}, {r.Ordered, "answered by order"}, {r.Unmatched, "not recorded"}} {
			if n.n > 0 {
				text += fmt.Sprintf(", %d %s", n.n, n.what)
			}
		}
		p.line("  requests    %s", text)
	}
	if r.Stopped != "" {
		p.line("  recording   not complete: %s", r.Stopped)
	}
	tree := map[string]string{api.TreeSame: "the same", api.TreeDifferent: "different", api.TreeUnknown: "cannot be compared: the commits of the task do not exist any more"}[r.Tree]
	if len(r.Paths) > 0 {
		tree += ": " + strings.Join(r.Paths, ", ")
	}
	p.line("  files       %s", tree)
	for _, d := range r.Differences {
		p.line("  %s", d)
	}
}
