package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"polis/daemon/api"
)

const (
	// takeTime bounds the attempts to take a text, takePause lies between two.
	takeTime  = 20 * time.Second
	takePause = 200 * time.Millisecond
)

// Said makes a request about what persons have said to the agent.
func (i *Inside) Said(ctx context.Context, req api.SaidRequest) (api.SaidResponse, error) {
	return fetch[api.SaidResponse](ctx, i.c, http.MethodPost, "/v1/said", nil, req)
}

// TakeSaid takes the next text that a person said to the agent; ok is false if there is none. An answer that
// does not arrive, such as at a restart of polisd, is requested again.
func (i *Inside) TakeSaid(ctx context.Context) (said api.SaidResponse, ok bool, err error) {
	next, err := i.Said(ctx, api.SaidRequest{})
	if err != nil || next.ID == "" {
		return next, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	by := rand.Text()
	for {
		said, err = i.Said(ctx, api.SaidRequest{Take: next.ID, By: by})
		switch api.CodeOf(err) {
		case api.CodeUnavailable, api.CodeShimUnavailable, api.CodeTimeout, api.CodeQuota:
		default:
			return said, err == nil && said.ID != "", err
		}
		select {
		case <-time.After(takePause):
		case <-ctx.Done():
			return said, false, err
		}
	}
}
