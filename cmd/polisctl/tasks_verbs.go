package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// taskVerb is a verb that does something to one task.
func (a *app) taskVerb(use, short, long string, do func(*client.Client, context.Context, string) (api.Task, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: takes(1, 1, "the ID of a task"), ValidArgsFunction: a.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText("ID", args[0], maxText); err != nil {
				return err
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				t, err := do(c, ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: t, names: []string{t.ID}, human: func(p *page) { p.line("task %s is %s", t.ID, t.Result) }})
			})
		},
	}
}

func (a *app) taskCancelCmd() *cobra.Command {
	return a.taskVerb("cancel ID", "End a task that runs, drop one that waits, or dismiss one that was lost",
		`End a task that runs: its program gets SIGTERM, and SIGKILL 10 seconds later.
The agent and its work stay; the branch is not merged. A task that waits for
its turn is dropped. A task that was lost is dismissed: it stays lost, and the
tasks that wait begin.`, (*client.Client).CancelTask)
}

func (a *app) taskRetryCmd() *cobra.Command {
	cmd := a.taskVerb("retry ID | --lost [AGENT...]", "Give a task to its agent again",
		`Give the prompt of a task that has ended to its agent again, as a new task. If the
agent works on another task, the new one waits for its turn; a task that was lost is
retried before the tasks that wait. Variables of run --env are not kept, and not given
again. An agent that is stopped or in state Error is brought up.

With --lost all tasks that were lost and neither retried nor dismissed are given to
their agents again: those of each AGENT, or of all agents.`, (*client.Client).RetryTask)
	var lost bool
	cmd.Flags().BoolVar(&lost, "lost", false, "retry all tasks that were lost")
	one, oneArg := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if lost {
			return nil
		}
		return oneArg(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !lost {
			return one(cmd, args)
		}
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error { return a.retryLost(ctx, c, args) })
	}
	return cmd
}

// retryLost retries the lost tasks of agents, or of all. It reports each failure and continues.
func (a *app) retryLost(ctx context.Context, c *client.Client, names []string) error {
	if len(names) == 0 {
		agents, err := c.Agents(ctx, "")
		if err != nil {
			return err
		}
		names = namesOf(agents)
	}
	var ids []string
	unread := a.each(names, "reading the tasks of ", func(name string) error {
		tasks, err := c.Tasks(ctx, name)
		for _, t := range tasks {
			if t.Interrupted != "" {
				ids = append(ids, t.ID)
			}
		}
		return err
	})
	var again []api.Task
	err := a.each(ids, "retrying task ", func(id string) error {
		t, err := c.RetryTask(ctx, id)
		if err == nil {
			again = append(again, t)
		}
		return err
	})
	switch {
	case err == nil:
		err = unread
	case unread != nil:
		a.complain(unread)
	}
	if len(again) == 0 && err != nil {
		return err
	}
	var done []string
	for _, t := range again {
		done = append(done, t.ID)
	}
	werr := a.show(view{json: map[string]any{"tasks": list(again)}, names: done, human: func(p *page) {
		for _, t := range again {
			p.line("task %s is retried as %s: %s", t.RetryOf, t.ID, t.Result)
		}
		if len(again) == 0 {
			p.line("no task was lost")
		}
	}})
	if err == nil {
		err = werr
	}
	return err
}
