package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"polis/daemon/api"
)

func policyQuery(req api.PolicyRequest) url.Values {
	query := given(map[string]string{"agent": req.Agent, "workspace": req.Workspace, "role": req.Role})
	if req.Run != 0 {
		query.Set("run", strconv.Itoa(req.Run))
	}
	return query
}

// LearnPolicy returns a role that allows what an agent used in record mode.
func (c *Client) LearnPolicy(ctx context.Context, req api.PolicyRequest) (api.LearnedPolicy, error) {
	return fetch[api.LearnedPolicy](ctx, c, http.MethodGet, "/v1/policy/learn", policyQuery(req), nil)
}

// CheckPolicy returns what a role would have refused of what an agent used in record mode.
func (c *Client) CheckPolicy(ctx context.Context, req api.PolicyRequest) (api.PolicyCheck, error) {
	return fetch[api.PolicyCheck](ctx, c, http.MethodGet, "/v1/policy/check", policyQuery(req), nil)
}
