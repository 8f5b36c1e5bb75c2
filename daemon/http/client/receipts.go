package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"polis/daemon/api"
)

// given returns the values that are not empty.
func given(values map[string]string) url.Values {
	query := url.Values{}
	for key, v := range values {
		if v != "" {
			query.Set(key, v)
		}
	}
	return query
}

// Receipts returns the last receipts that match.
func (c *Client) Receipts(ctx context.Context, req api.ReceiptsRequest) (api.Receipts, error) {
	query := given(map[string]string{"workspace": req.Workspace, "agent": req.Agent, "type": req.Type})
	if !req.Since.IsZero() {
		query.Set("since", req.Since.Format(time.RFC3339Nano))
	}
	if req.Limit > 0 {
		query.Set("limit", strconv.Itoa(req.Limit))
	}
	return fetch[api.Receipts](ctx, c, http.MethodGet, "/v1/receipts", query, nil)
}

// VerifyReceipts compares all receipts of a workspace with their hashes. head is the hash of an entry
// that must be there, or "".
func (c *Client) VerifyReceipts(ctx context.Context, workspace, head string) (api.ReceiptsCheck, error) {
	return fetch[api.ReceiptsCheck](ctx, c, http.MethodGet, "/v1/receipts/verify", given(map[string]string{"workspace": workspace, "head": head}), nil)
}

// Provenance returns in-toto statements about the merges of a workspace, one a line, or about the one with
// this entry in its log; 0 is all. The caller closes it.
func (c *Client) Provenance(ctx context.Context, workspace string, entry uint64) (io.ReadCloser, error) {
	q := given(map[string]string{"workspace": workspace})
	if entry > 0 {
		q.Set("entry", strconv.FormatUint(entry, 10))
	}
	return c.stream(ctx, "/v1/receipts/provenance", q)
}

// ExportReceipts returns all receipts of a workspace as lines of JSON. The caller closes it.
func (c *Client) ExportReceipts(ctx context.Context, workspace string) (io.ReadCloser, error) {
	return c.stream(ctx, "/v1/receipts/export", given(map[string]string{"workspace": workspace}))
}
