package client

import (
	"context"
	"net/http"

	"polis/daemon/api"
)

// Setups describes the setup of a workspace, or of all if it is empty.
func (c *Client) Setups(ctx context.Context, workspace string) ([]api.Setup, error) {
	var out struct {
		Setups []api.Setup `json:"setups"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/setups", ofWorkspace(workspace), nil, &out)
	return out.Setups, err
}

// RunSetup runs the setup command of a workspace and waits for its end, and calls progress with what
// is being done. It continues if ctx ends.
func (c *Client) RunSetup(ctx context.Context, req api.SetupRequest, progress func(string)) (api.Setup, error) {
	var out api.Setup
	err := c.long(ctx, "/v1/setups", req, &out, progress)
	return out, err
}

// SetupLog returns the end of the output of the last setup command of a workspace.
func (c *Client) SetupLog(ctx context.Context, workspace string) (api.SetupLog, error) {
	return fetch[api.SetupLog](ctx, c, http.MethodGet, "/v1/setups/log", ofWorkspace(workspace), nil)
}
