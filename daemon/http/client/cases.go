package client

import (
	"context"
	"net/http"
	"net/url"

	"polis/daemon/api"
)

// Cases lists what the patrol left open for a workspace ("" = all); all: the resolved ones too.
func (c *Client) Cases(ctx context.Context, workspace string, all bool) ([]api.Case, error) {
	var out struct {
		Cases []api.Case `json:"cases"`
	}
	query := ofWorkspace(workspace)
	if all {
		if query == nil {
			query = url.Values{}
		}
		query.Set("all", "1")
	}
	err := c.call(ctx, http.MethodGet, "/v1/patrol/cases", query, nil, &out)
	return out.Cases, err
}

// Case returns one case of the patrol.
func (c *Client) Case(ctx context.Context, id string) (api.Case, error) {
	var out api.Case
	return out, c.call(ctx, http.MethodGet, "/v1/patrol/cases/"+url.PathEscape(id), nil, nil, &out)
}

// ResolveCase resolves a case of the patrol.
func (c *Client) ResolveCase(ctx context.Context, id string, req api.ResolveRequest) (api.Case, error) {
	var out api.Case
	return out, c.call(ctx, http.MethodPost, "/v1/patrol/cases/"+url.PathEscape(id)+"/resolve", nil, req, &out)
}

// Thaw lets the processes of a frozen agent continue.
func (c *Client) Thaw(ctx context.Context, name string) (api.Agent, error) {
	var out api.Agent
	return out, c.call(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(name)+"/thaw", nil, nil, &out)
}
