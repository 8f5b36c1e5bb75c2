package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"polis/daemon/api"
)

// Roles lists the roles of the configuration.
func (c *Client) Roles(ctx context.Context) ([]api.Role, error) {
	var out struct {
		Roles []api.Role `json:"roles"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/roles", nil, nil, &out)
	return out.Roles, err
}

// Role returns one role.
func (c *Client) Role(ctx context.Context, name string) (api.Role, error) {
	var out api.Role
	return out, c.call(ctx, http.MethodGet, "/v1/roles/"+url.PathEscape(name), nil, nil, &out)
}

// CheckRole returns what would be decided about a request, and makes no question.
func (c *Client) CheckRole(ctx context.Context, req api.RoleCheck) (api.RoleDecision, error) {
	q := url.Values{}
	for k, v := range map[string]string{"tool": req.Tool, "text": req.Text, "path": req.Path, "agent": req.Agent, "base_type": req.BaseType, "workspace": req.Workspace} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if req.Write {
		q.Set("write", "1")
	}
	if req.Input != nil {
		b, err := json.Marshal(req.Input)
		if err != nil {
			return api.RoleDecision{}, api.Errorf(api.CodeBadRequest, "input: %w", err)
		}
		q.Set("input", string(b))
	}
	var out api.RoleDecision
	return out, c.call(ctx, http.MethodGet, "/v1/roles/"+url.PathEscape(req.Role)+"/check", q, nil, &out)
}
