package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"polis/daemon/api"
)

// Locks lists the leases held now.
func (c *Client) Locks(ctx context.Context) ([]api.Lock, error) { return c.LocksOf(ctx, "") }

// LocksOf is Locks of one workspace; "" means all.
func (c *Client) LocksOf(ctx context.Context, workspace string) ([]api.Lock, error) {
	var out struct {
		Locks []api.Lock `json:"locks"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/locks", ofWorkspace(workspace), nil, &out)
	return out.Locks, err
}

// Usage returns what agents used of model services, by "agent", "task", "model" or "day", since a day
// (YYYY-MM-DD; "": ever); an empty workspace means all.
func (c *Client) Usage(ctx context.Context, workspace, by, since string) ([]api.ModelUse, error) {
	var out struct {
		Usage []api.ModelUse `json:"usage"`
	}
	query := url.Values{}
	for k, v := range map[string]string{"workspace": workspace, "by": by, "since": since} {
		if v != "" {
			query.Set(k, v)
		}
	}
	err := c.call(ctx, http.MethodGet, "/v1/usage", query, nil, &out)
	return out.Usage, err
}

// Conflicts returns the conflicts that merges of agents would have, workspace by workspace; an
// empty name means all.
func (c *Client) Conflicts(ctx context.Context, workspace string) ([]api.Conflicts, error) {
	var out struct {
		Conflicts []api.Conflicts `json:"conflicts"`
	}
	query := ofWorkspace(workspace)
	err := c.call(ctx, http.MethodGet, "/v1/conflicts", query, nil, &out)
	return out.Conflicts, err
}

// Lock takes an explicit lock.
func (c *Client) Lock(ctx context.Context, req api.LockRequest) (api.Lock, error) {
	return fetch[api.Lock](ctx, c, http.MethodPost, "/v1/locks", nil, req)
}

// Unlock releases a lock.
func (c *Client) Unlock(ctx context.Context, req api.LockRequest) error {
	return c.call(ctx, http.MethodDelete, "/v1/locks", nil, req, nil)
}

// Ports lists the port maps.
func (c *Client) Ports(ctx context.Context) ([]api.PortMapping, error) {
	var out struct {
		Ports []api.PortMapping `json:"ports"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/ports", nil, nil, &out)
	return out.Ports, err
}

// AddPort maps a port of an agent to the host, or a range of them.
func (c *Client) AddPort(ctx context.Context, req api.PortRequest) (api.PortsAdded, error) {
	return fetch[api.PortsAdded](ctx, c, http.MethodPost, "/v1/ports", nil, req)
}

// RemovePort removes the map of an agent's port, or those of a range if last
// is not 0. protocol is "tcp" (or "") or "udp".
func (c *Client) RemovePort(ctx context.Context, agent, protocol string, internal, last int) error {
	query := url.Values{}
	if protocol != "" && protocol != api.ProtoTCP {
		query.Set("protocol", protocol)
	}
	if last > internal {
		query.Set("last", strconv.Itoa(last))
	}
	path := fmt.Sprintf("/v1/ports/%s/%d", url.PathEscape(agent), internal)
	return c.call(ctx, http.MethodDelete, path, query, nil, nil)
}
