package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"polis/daemon/api"
)

// Status returns the daemon's state.
func (c *Client) Status(ctx context.Context) (api.DaemonStatus, error) {
	return fetch[api.DaemonStatus](ctx, c, http.MethodGet, "/v1/status", nil, nil)
}

// Doctor returns what the machine supports, and what is missing.
func (c *Client) Doctor(ctx context.Context) (api.DoctorReport, error) {
	return fetch[api.DoctorReport](ctx, c, http.MethodGet, "/v1/doctor", nil, nil)
}

// ProjectChecks describes the project of a workspace.
func (c *Client) ProjectChecks(ctx context.Context, workspace string) (api.ProjectReport, error) {
	return fetch[api.ProjectReport](ctx, c, http.MethodGet, "/v1/workspaces/"+url.PathEscape(workspace)+"/checks", nil, nil)
}

// Health returns nil if polisd answers and is well.
func (c *Client) Health(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/v1/health", nil, nil, nil)
}

// Metrics opens the daemon's numbers as Prometheus text. The caller closes it.
func (c *Client) Metrics(ctx context.Context) (io.ReadCloser, error) {
	return c.stream(ctx, "/v1/metrics", nil)
}

// Top measures what every living agent uses.
func (c *Client) Top(ctx context.Context) (api.Top, error) {
	return fetch[api.Top](ctx, c, http.MethodGet, "/v1/top", nil, nil)
}

// Workspaces lists the repositories under polis.
func (c *Client) Workspaces(ctx context.Context) ([]api.Workspace, error) {
	var out struct {
		Workspaces []api.Workspace `json:"workspaces"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/workspaces", nil, nil, &out)
	return out.Workspaces, err
}

// Maintenance returns when the shared repositories were last maintained, and the results; an
// empty name means all workspaces.
func (c *Client) Maintenance(ctx context.Context, workspace string) ([]api.MaintenanceReport, error) {
	var out struct {
		Maintenance []api.MaintenanceReport `json:"maintenance"`
	}
	query := ofWorkspace(workspace)
	err := c.call(ctx, http.MethodGet, "/v1/maintenance", query, nil, &out)
	return out.Maintenance, err
}

// Maintain maintains a shared repository now. progress, if not nil, is called at each step.
func (c *Client) Maintain(ctx context.Context, req api.MaintenanceRequest, progress func(string)) (api.MaintenanceReport, error) {
	var out api.MaintenanceReport
	err := c.long(ctx, "/v1/maintenance", req, &out, progress)
	return out, err
}

// Up makes or finds a workspace. progress, if not nil, is called at each step.
func (c *Client) Up(ctx context.Context, req api.UpRequest, progress func(string)) (api.UpResponse, error) {
	var out api.UpResponse
	err := c.long(ctx, "/v1/workspaces", req, &out, progress)
	return out, err
}

// Down removes a workspace from polis, by name.
func (c *Client) Down(ctx context.Context, name string, req api.DownRequest) (api.DownResponse, error) {
	var out api.DownResponse
	query := keepIgnored(req.Ignored)
	if req.Force {
		query.Set("force", "1")
	}
	err := c.call(ctx, http.MethodDelete, "/v1/workspaces/"+url.PathEscape(name), query, nil, &out)
	return out, err
}

// OpenAPI is the daemon's description of its API as OpenAPI 3.0, in JSON.
func (c *Client) OpenAPI(ctx context.Context) ([]byte, error) {
	return fetch[json.RawMessage](ctx, c, http.MethodGet, "/v1/openapi.json", nil, nil)
}

// LastPatrol is the last cycle of the patrol; its time is zero if there was none.
func (c *Client) LastPatrol(ctx context.Context) (api.PatrolReport, error) {
	return fetch[api.PatrolReport](ctx, c, http.MethodGet, "/v1/patrol", nil, nil)
}

// Patrol does a cycle of the patrol now. With a dry run nothing is done about what it finds.
func (c *Client) Patrol(ctx context.Context, req api.PatrolRequest) (api.PatrolReport, error) {
	return fetch[api.PatrolReport](ctx, c, http.MethodPost, "/v1/patrol", nil, req)
}

// MoveWorkspace records another directory as the project of a workspace.
func (c *Client) MoveWorkspace(ctx context.Context, name string, req api.MoveRequest) (api.Workspace, error) {
	var out api.Workspace
	err := c.call(ctx, http.MethodPost, "/v1/workspaces/"+url.PathEscape(name)+"/move", nil, req, &out)
	return out, err
}
