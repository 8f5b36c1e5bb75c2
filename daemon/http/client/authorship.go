package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"polis/daemon/api"
)

// Who returns who read or wrote a path.
func (c *Client) Who(ctx context.Context, req api.WhoRequest) (api.Who, error) {
	op := "read"
	if req.Write {
		op = "wrote"
	}
	query := given(map[string]string{"workspace": req.Workspace, "agent": req.Agent, "path": req.Path, "op": op, "checkpoint": req.Checkpoint})
	if !req.Since.IsZero() {
		query.Set("since", req.Since.Format(time.RFC3339Nano))
	}
	for key, n := range map[string]int{"limit": req.Limit, "line": req.Line} {
		if n > 0 {
			query.Set(key, strconv.Itoa(n))
		}
	}
	return fetch[api.Who](ctx, c, http.MethodGet, "/v1/who", query, nil)
}

// Blame returns which commit, agent and task each line of a file is of: of the file of an agent, or with
// "" of that of the target branch.
func (c *Client) Blame(ctx context.Context, workspace, agent, path string) (api.Blame, error) {
	return fetch[api.Blame](ctx, c, http.MethodGet, "/v1/blame", given(map[string]string{"workspace": workspace, "agent": agent, "path": path}), nil)
}
