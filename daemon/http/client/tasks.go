package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"polis/daemon/api"
)

// Tasks returns an agent's task log.
func (c *Client) Tasks(ctx context.Context, name string) ([]api.Task, error) {
	var out struct {
		Tasks []api.Task `json:"tasks"`
	}
	err := c.call(ctx, http.MethodGet, agentPath(name, "tasks"), nil, nil, &out)
	return out.Tasks, err
}

// AllTasks returns the last tasks of a workspace, or of all if it is empty.
func (c *Client) AllTasks(ctx context.Context, workspace string, limit int) ([]api.Task, error) {
	query := ofWorkspace(workspace)
	query.Set("limit", strconv.Itoa(limit))
	var out struct {
		Tasks []api.Task `json:"tasks"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/tasks", query, nil, &out)
	return out.Tasks, err
}

func taskPath(id string, rest ...string) string {
	p := "/v1/tasks/" + url.PathEscape(id)
	for _, r := range rest {
		p += "/" + r
	}
	return p
}

// Task returns one task. With wait, at most 5 minutes, it waits until the task's
// result is final and its program has exited, or that time is over.
func (c *Client) Task(ctx context.Context, id string, wait time.Duration) (api.Task, error) {
	return fetch[api.Task](ctx, c, http.MethodGet, taskPath(id), waitFor(wait), nil)
}

// CancelTask ends a task that runs, drops one that waits, and dismisses one that was lost.
func (c *Client) CancelTask(ctx context.Context, id string) (api.Task, error) {
	return fetch[api.Task](ctx, c, http.MethodPost, taskPath(id, "cancel"), nil, nil)
}

// RetryTask gives a task to its agent once more.
func (c *Client) RetryTask(ctx context.Context, id string) (api.Task, error) {
	return fetch[api.Task](ctx, c, http.MethodPost, taskPath(id, "retry"), nil, nil)
}

// TaskOutput is what a task printed, as far as it is kept.
func (c *Client) TaskOutput(ctx context.Context, id string) (io.ReadCloser, error) {
	resp, err := c.request(ctx, http.MethodGet, taskPath(id, "output"), nil, nil, http.Header{"Accept": {"text/plain"}}) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// TaskRaw is the machine-readable output of a task's program, if that is read, else what it
// printed.
func (c *Client) TaskRaw(ctx context.Context, id string) (io.ReadCloser, error) {
	resp, err := c.request(ctx, http.MethodGet, taskPath(id, "output"), url.Values{"raw": {"1"}}, nil, http.Header{"Accept": {"text/plain"}}) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// TaskDiff is what a task committed, as a patch, or only how much.
func (c *Client) TaskDiff(ctx context.Context, id string, stat bool) (io.ReadCloser, error) {
	query := url.Values{}
	if stat {
		query.Set("stat", "1")
	}
	resp, err := c.request(ctx, http.MethodGet, taskPath(id, "diff"), query, nil, http.Header{"Accept": {"text/x-diff"}}) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
