package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

func (a *app) workersCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers COMMAND",
		Short: "List workers, wait for them, cancel and remove them",
		Long: `A worker is an agent that polisctl delegate made for one task. These commands work on
the host, for all workers, and in an agent's sandbox, for that agent's own.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.workersListCmd(), a.workersWaitCmd(), a.workersResultCmd(), a.workersCancelCmd(), a.workersCleanupCmd())
	return cmd
}

func (a *app) workersListCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:     "list [-w WORKSPACE]",
		Aliases: []string{"ls"},
		Short:   "List workers, also those that have ended or were removed",
		Args:    takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only workers in this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.callWorkers(cmd, shortCall, func(ctx context.Context, c workerCalls) error {
			all, err := c.Workers(ctx, workspace)
			if err != nil {
				return err
			}
			return a.show(workersView(all))
		})
	}
	return cmd
}

func workersView(all []api.Worker) view {
	ids := make([]string, 0, len(all))
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	return view{json: map[string]any{"workers": list(all)}, names: ids, human: func(p *page) {
		rows := make([][]cell, 0, len(all))
		for _, w := range all {
			result, state := cell{}, cell{text: string(w.State)}
			if w.Task != nil {
				result = cell{w.Task.Result, outcomeColor(w.Task.Outcome)}
			}
			switch {
			case w.Waiting != nil:
				state = waitingCell(w.Waiting)
			case w.Removed:
				state.text = "removed"
			}
			rows = append(rows, []cell{{text: w.ID}, state, {text: w.Branch}, {text: w.Parent}, {text: p.ago(w.CreatedAt)}, result})
		}
		p.table("no workers", []string{"ID", "STATE", "BRANCH", "FOR", "SINCE", "RESULT"}, rows)
	}}
}

func (a *app) workersWaitCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "wait ID... | --all",
		Short: "Wait until workers have ended, and show their results",
		Long: `Wait until the result of every named worker is final, and show the results. With
--all these are all workers that have not ended. A question that a worker asks is
printed; polisctl approvals answers it.

The exit status is that of the task if one worker is named, as polisctl run has it. For
several it is 0 if all ended well and 1 if any did not. It is 7 after --timeout; the
workers continue.`,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if all {
			return takes(0, 0, "")(cmd, args)
		}
		return takes(1, -1, "the ID of a worker, or --all")(cmd, args)
	}
	cmd.Flags().BoolVar(&all, "all", false, "wait for all workers that have not ended")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := checkAgents(ids...); err != nil {
			return err
		}
		return a.callWorkers(cmd, forever, func(ctx context.Context, c workerCalls) error {
			if all {
				running, err := c.Workers(ctx, "")
				if err != nil {
					return err
				}
				for _, w := range running {
					if w.State != api.WorkerEnded {
						ids = append(ids, w.ID)
					}
				}
			}
			return a.waitWorkers(ctx, c, ids, all)
		})
	}
	return cmd
}

// waitWorkers waits for one worker after the other: all of them run meanwhile.
func (a *app) waitWorkers(ctx context.Context, c workerCalls, ids []string, all bool) error {
	var results []api.Worker
	unask := a.showWorkersQuestions(ctx, ids)
	defer unask()
	for _, id := range ids {
		w, err := a.awaitWorker(ctx, c, id, a.workerAsks(id))
		if err != nil {
			var i interrupt
			if errors.As(context.Cause(ctx), &i) {
				return childStatus(exitSignal + int(i.sig))
			}
			return err
		}
		results = append(results, w)
	}
	unask()
	if len(results) == 1 && !all {
		if err := a.showWorker(results[0]); err != nil {
			return err
		}
		return workerStatus(results[0])
	}
	v := workersView(results)
	if err := a.show(v); err != nil {
		return err
	}
	for _, w := range results {
		if !w.OK {
			return childStatus(exitFailure)
		}
	}
	return nil
}

func (a *app) workersResultCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "result ID",
		Short: "Show the result of a worker: what it says, its changes, its branch",
		Long: `Show a worker and the result of its task so far, also of one that was removed. The
exit status is that of the task, as polisctl run has it, and 0 as long as it has not
ended.`,
		Args: takes(1, 1, "the ID of a worker"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.oneWorker(cmd, args[0], func(ctx context.Context, c workerCalls) (api.Worker, error) { return c.Worker(ctx, args[0], 0) }, true)
		},
	}
}

func (a *app) workersCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "End the task of a worker",
		Long:  "End the task of a worker: its program gets SIGTERM, and SIGKILL 10 seconds later.\nThe worker and its work stay until they are removed.",
		Args:  takes(1, 1, "the ID of a worker"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.oneWorker(cmd, args[0], func(ctx context.Context, c workerCalls) (api.Worker, error) { return c.CancelWorker(ctx, args[0]) }, false)
		},
	}
}

// oneWorker shows one worker; with status it ends as the worker's task did, if that has ended.
func (a *app) oneWorker(cmd *cobra.Command, id string, do func(context.Context, workerCalls) (api.Worker, error), status bool) error {
	if err := checkAgents(id); err != nil {
		return err
	}
	return a.callWorkers(cmd, time.Minute, func(ctx context.Context, c workerCalls) error {
		w, err := do(ctx, c)
		if err != nil {
			return err
		}
		if err := a.showWorker(w); err != nil || !status || w.State != api.WorkerEnded {
			return err
		}
		return workerStatus(w)
	})
}

func (a *app) workersCleanupCmd() *cobra.Command {
	var req api.CleanupRequest
	cmd := &cobra.Command{
		Use:   "cleanup [-w WORKSPACE] [--force]",
		Short: "Remove workers that have ended",
		Long: `Remove the agents of workers whose task has ended. Their branches and results stay. A
worker with files that are in no commit is kept; --force removes it too, and saves those
files in the trash (polisctl restore).`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "only workers in this `WORKSPACE`")
	cmd.Flags().BoolVarP(&req.Force, "force", "f", false, "also those with uncommitted files, which are saved in the trash")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(req.Workspace); err != nil {
			return err
		}
		return a.callWorkers(cmd, longCall, func(ctx context.Context, c workerCalls) error {
			res, err := c.CleanupWorkers(ctx, req)
			if err != nil {
				return err
			}
			names := make([]string, 0, len(res.Removed))
			for _, r := range res.Removed {
				names = append(names, r.Name)
			}
			return a.show(view{json: res, names: names, human: func(p *page) {
				if len(res.Removed)+len(res.Kept) == 0 {
					p.line("no worker has ended")
				}
				for _, n := range names {
					p.line("worker %s was removed", n)
				}
				for _, k := range res.Kept {
					text := k.Error.Message
					if k.Error.Hint != "" {
						text += "; hint: " + k.Error.Hint
					}
					p.warn("worker %s is kept: %s", k.ID, text)
				}
			}})
		})
	}
	return cmd
}
