package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"polis/daemon/api"
)

// Delegate makes a worker and gives it a task.
func (c *Client) Delegate(ctx context.Context, req api.DelegateRequest) (api.Worker, error) {
	return fetch[api.Worker](ctx, c, http.MethodPost, "/v1/workers", nil, req)
}

// Workers lists the workers of a workspace, or all if it is empty, removed ones too.
func (c *Client) Workers(ctx context.Context, workspace string) ([]api.Worker, error) {
	var out struct {
		Workers []api.Worker `json:"workers"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/workers", ofWorkspace(workspace), nil, &out)
	return out.Workers, err
}

// Worker returns one worker. With wait, at most 5 minutes, it waits until the worker's result is
// final, or that time is over.
func (c *Client) Worker(ctx context.Context, id string, wait time.Duration) (api.Worker, error) {
	return fetch[api.Worker](ctx, c, http.MethodGet, "/v1/workers/"+url.PathEscape(id), waitFor(wait), nil)
}

// CancelWorker ends a worker's task.
func (c *Client) CancelWorker(ctx context.Context, id string) (api.Worker, error) {
	return fetch[api.Worker](ctx, c, http.MethodPost, "/v1/workers/"+url.PathEscape(id)+"/cancel", nil, nil)
}

// CleanupWorkers removes workers whose task has ended.
func (c *Client) CleanupWorkers(ctx context.Context, req api.CleanupRequest) (api.CleanupResponse, error) {
	return fetch[api.CleanupResponse](ctx, c, http.MethodPost, "/v1/workers/cleanup", nil, req)
}
