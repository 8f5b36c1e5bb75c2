package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// workerCalls are requests about workers: of polisd on the host, of the agent's own shim in a
// sandbox.
type workerCalls interface {
	Delegate(ctx context.Context, req api.DelegateRequest) (api.Worker, error)
	Workers(ctx context.Context, workspace string) ([]api.Worker, error)
	Worker(ctx context.Context, id string, wait time.Duration) (api.Worker, error)
	CancelWorker(ctx context.Context, id string) (api.Worker, error)
	CleanupWorkers(ctx context.Context, req api.CleanupRequest) (api.CleanupResponse, error)
}

// insideWorkers makes them in a sandbox.
type insideWorkers struct{ c *client.Inside }

func (i insideWorkers) one(ctx context.Context, req api.WorkersRequest) (api.Worker, error) {
	res, err := i.c.Workers(ctx, req)
	if err != nil {
		return api.Worker{}, err
	}
	if len(res.Workers) != 1 {
		return api.Worker{}, api.Errorf(api.CodeInternal, "the answer has %d workers: it must have one", len(res.Workers))
	}
	return res.Workers[0], nil
}

func (i insideWorkers) Delegate(ctx context.Context, req api.DelegateRequest) (api.Worker, error) {
	return i.one(ctx, api.WorkersRequest{Op: api.WorkersDelegate, Delegate: &req})
}

func (i insideWorkers) Workers(ctx context.Context, workspace string) ([]api.Worker, error) {
	if workspace != "" {
		return nil, usagef("--workspace cannot be used in a sandbox: an agent has workers in its own workspace only")
	}
	res, err := i.c.Workers(ctx, api.WorkersRequest{Op: api.WorkersList})
	return res.Workers, err
}

func (i insideWorkers) Worker(ctx context.Context, id string, wait time.Duration) (api.Worker, error) {
	return i.one(ctx, api.WorkersRequest{Op: api.WorkersGet, ID: id, WaitSeconds: int(wait / time.Second)})
}

func (i insideWorkers) CancelWorker(ctx context.Context, id string) (api.Worker, error) {
	return i.one(ctx, api.WorkersRequest{Op: api.WorkersCancel, ID: id})
}

func (i insideWorkers) CleanupWorkers(ctx context.Context, req api.CleanupRequest) (api.CleanupResponse, error) {
	if req.Force || req.Workspace != "" {
		return api.CleanupResponse{}, usagef("--force and --workspace cannot be used in a sandbox")
	}
	res, err := i.c.Workers(ctx, api.WorkersRequest{Op: api.WorkersCleanup})
	if err != nil || res.Cleanup == nil {
		return api.CleanupResponse{}, err
	}
	return *res.Cleanup, nil
}

// callWorkers is call and callInside for what is done about workers.
func (a *app) callWorkers(cmd *cobra.Command, limit time.Duration, fn func(context.Context, workerCalls) error) error {
	if _, inside := a.insidePath(); inside {
		if a.timeout > 0 {
			limit = a.timeout
		}
		return a.callInside(cmd, limit, func(ctx context.Context, c *client.Inside) error { return fn(ctx, insideWorkers{c}) })
	}
	return a.call(cmd, limit, func(ctx context.Context, c *client.Client) error { return fn(ctx, c) })
}

// awaitWorker returns the worker once its result is final, also across a restart of polisd. asks, if
// not nil, is called when the worker begins to wait for something else.
func (a *app) awaitWorker(ctx context.Context, c workerCalls, id string, asks func(api.Waiting)) (w api.Worker, err error) {
	seen := ""
	err = a.pollToEnd(ctx, func() (bool, error) {
		if w, err = c.Worker(ctx, id, workerPoll); err != nil || w.State == api.WorkerEnded {
			return true, err
		}
		if wait := w.Waiting; wait != nil && wait.ID+wait.Path != seen {
			if seen = wait.ID + wait.Path; asks != nil {
				asks(*wait)
			}
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		err = api.Errorf(api.CodeTimeout, "worker %s has not ended: %w", id, err).WithHint("it continues: polisctl workers wait %s", id)
	}
	return w, err
}

// workerPoll is how long one request waits for a worker's result: a question of the worker is shown
// after that long at the latest.
const workerPoll = 5 * time.Second
