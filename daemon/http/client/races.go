package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"polis/daemon/api"
)

// Race starts a race.
func (c *Client) Race(ctx context.Context, req api.RaceRequest) (api.Race, error) {
	return fetch[api.Race](ctx, c, http.MethodPost, "/v1/races", nil, req)
}

// Races lists the races of a workspace, or all if it is empty.
func (c *Client) Races(ctx context.Context, workspace string) ([]api.Race, error) {
	var out struct {
		Races []api.Race `json:"races"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/races", ofWorkspace(workspace), nil, &out)
	return out.Races, err
}

// GetRace returns one race. With wait, at most 5 minutes, it waits until the race has ended or waits
// for a choice, or that time is over.
func (c *Client) GetRace(ctx context.Context, id string, wait time.Duration) (api.Race, error) {
	return fetch[api.Race](ctx, c, http.MethodGet, "/v1/races/"+url.PathEscape(id), waitFor(wait), nil)
}

// CancelRace ends a race.
func (c *Client) CancelRace(ctx context.Context, id string) (api.Race, error) {
	return fetch[api.Race](ctx, c, http.MethodPost, "/v1/races/"+url.PathEscape(id)+"/cancel", nil, nil)
}

// ChooseRace chooses the winner of a race; "" for none.
func (c *Client) ChooseRace(ctx context.Context, id, agent string) (api.Race, error) {
	return fetch[api.Race](ctx, c, http.MethodPost, "/v1/races/"+url.PathEscape(id)+"/choose", nil, api.ChooseRequest{Agent: agent})
}
