package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"polis/daemon/api"
)

// Replay gives a recorded task to a new agent.
func (c *Client) Replay(ctx context.Context, task string, req api.ReplayRequest) (api.Replay, error) {
	return fetch[api.Replay](ctx, c, http.MethodPost, "/v1/tasks/"+url.PathEscape(task)+"/replay", nil, req)
}

// Replayed returns the replay that an agent was added for. With wait it waits that long for its end.
func (c *Client) Replayed(ctx context.Context, agent string, wait time.Duration) (api.Replay, error) {
	return fetch[api.Replay](ctx, c, http.MethodGet, "/v1/agents/"+url.PathEscape(agent)+"/replay", waitFor(wait), nil)
}
