package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"polis/daemon/api"
)

// Queues returns the merge queues of a workspace, or of all if it is empty.
func (c *Client) Queues(ctx context.Context, workspace string) ([]api.Queue, error) {
	var out struct {
		Queues []api.Queue `json:"queues"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/queue", ofWorkspace(workspace), nil, &out)
	return out.Queues, err
}

// Enqueue puts an agent in the merge queue and does not wait.
func (c *Client) Enqueue(ctx context.Context, req api.QueueRequest) (api.QueueEntry, error) {
	return fetch[api.QueueEntry](ctx, c, http.MethodPost, "/v1/queue", nil, req)
}

// Prioritize gives an agent in the merge queue another priority.
func (c *Client) Prioritize(ctx context.Context, agent string, priority int) error {
	return c.call(ctx, http.MethodPost, "/v1/queue/"+url.PathEscape(agent), nil, api.QueueRequest{Priority: priority}, nil)
}

// Dequeue takes an agent out of the merge queue.
func (c *Client) Dequeue(ctx context.Context, agent string) error {
	return c.call(ctx, http.MethodDelete, "/v1/queue/"+url.PathEscape(agent), nil, nil, nil)
}

// Revert takes an agent's merge back.
func (c *Client) Revert(ctx context.Context, name string, req api.RevertRequest) (api.RevertResponse, error) {
	return fetch[api.RevertResponse](ctx, c, http.MethodPost, agentPath(name, "revert"), nil, req)
}

// Restore brings a removed agent back.
func (c *Client) Restore(ctx context.Context, name string, req api.RestoreRequest) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodPost, agentPath(name, "restore"), nil, req)
}

// Fork makes a new agent that begins with the work of another one.
func (c *Client) Fork(ctx context.Context, name string, req api.ForkRequest) (api.ForkResponse, error) {
	var out api.ForkResponse
	err := c.call(ctx, http.MethodPost, agentPath(name, "fork"), nil, req, &out)
	return out, err
}

// Commit commits what an agent has in no commit.
func (c *Client) Commit(ctx context.Context, name string, req api.CommitRequest) (api.CommitResponse, error) {
	return fetch[api.CommitResponse](ctx, c, http.MethodPost, agentPath(name, "commit"), nil, req)
}

// Rebase merges the target into an agent's branch, in its worktree.
func (c *Client) Rebase(ctx context.Context, name string) (api.RebaseResponse, error) {
	return fetch[api.RebaseResponse](ctx, c, http.MethodPost, agentPath(name, "rebase"), nil, nil)
}

// Diff opens the patch of what an agent changed.
func (c *Client) Diff(ctx context.Context, name string, req api.DiffRequest) (io.ReadCloser, error) {
	query := url.Values{}
	for key, on := range map[string]bool{"stat": req.Stat, "names": req.NameOnly, "committed": req.Committed} {
		if on {
			query.Set(key, "1")
		}
	}
	return c.stream(ctx, agentPath(name, "diff"), query)
}

// GC deletes old work from the trash.
func (c *Client) GC(ctx context.Context, req api.GCRequest) (api.GCResponse, error) {
	return fetch[api.GCResponse](ctx, c, http.MethodPost, "/v1/gc", nil, req)
}

// Rework gives the task to resolve an agent's failed merge to a new agent, or to the agent itself.
func (c *Client) Rework(ctx context.Context, agent string, req api.ReworkRequest) (api.MergeSignal, error) {
	return fetch[api.MergeSignal](ctx, c, http.MethodPost, "/v1/queue/"+url.PathEscape(agent)+"/rework", nil, req)
}

// CheckLog returns a check of an agent's branch, with the end of its output.
func (c *Client) CheckLog(ctx context.Context, req api.CheckLogRequest) (api.CheckLog, error) {
	query := ofCheck(req)
	if req.Lines > 0 {
		query.Set("lines", strconv.Itoa(req.Lines))
	}
	return fetch[api.CheckLog](ctx, c, http.MethodGet, "/v1/queue/"+url.PathEscape(req.Agent)+"/log", query, nil)
}

// CheckOutput opens all that a check of an agent's branch printed.
func (c *Client) CheckOutput(ctx context.Context, req api.CheckLogRequest) (io.ReadCloser, error) {
	return c.stream(ctx, "/v1/queue/"+url.PathEscape(req.Agent)+"/log/output", ofCheck(req))
}

func ofCheck(req api.CheckLogRequest) url.Values {
	query := url.Values{}
	for key, value := range map[string]string{"workspace": req.Workspace, "id": req.ID} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if req.Check > 0 {
		query.Set("check", strconv.Itoa(req.Check))
	}
	return query
}
