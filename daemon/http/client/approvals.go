package client

import (
	"context"
	"net/http"
	"net/url"

	"polis/daemon/api"
)

// Approvals lists the open questions of the agents of a workspace, or of all if it is empty.
func (c *Client) Approvals(ctx context.Context, workspace string) ([]api.Approval, error) {
	var out struct {
		Approvals []api.Approval `json:"approvals"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/approvals", ofWorkspace(workspace), nil, &out)
	return out.Approvals, err
}

// Approval returns one question.
func (c *Client) Approval(ctx context.Context, id string) (api.Approval, error) {
	var out api.Approval
	return out, c.call(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(id), nil, nil, &out)
}

// Answer answers a question. Without an error the agent's shim has the answer.
func (c *Client) Answer(ctx context.Context, id string, req api.AnswerRequest) (api.Approval, error) {
	var out api.Approval
	return out, c.call(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id), nil, req, &out)
}

// ApprovalRules lists the answers that are remembered.
func (c *Client) ApprovalRules(ctx context.Context, workspace string) ([]api.ApprovalRule, error) {
	var out struct {
		Rules []api.ApprovalRule `json:"rules"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/approval-rules", ofWorkspace(workspace), nil, &out)
	return out.Rules, err
}

// RevokeApproval revokes a remembered answer.
func (c *Client) RevokeApproval(ctx context.Context, id string) (api.ApprovalRule, error) {
	var out api.ApprovalRule
	return out, c.call(ctx, http.MethodDelete, "/v1/approval-rules/"+url.PathEscape(id), nil, nil, &out)
}
