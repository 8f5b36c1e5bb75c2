package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"polis/daemon/api"
)

func replayQuery(workspace string, entry uint64, branch string) url.Values {
	q := given(map[string]string{"workspace": workspace, "branch": branch})
	if entry > 0 {
		q.Set("entry", strconv.FormatUint(entry, 10))
	}
	return q
}

// ReplayReceipts rebuilds the state of a workspace at an entry of its receipts; 0 is the newest.
func (c *Client) ReplayReceipts(ctx context.Context, workspace string, entry uint64) (api.ReceiptsReplay, error) {
	return fetch[api.ReceiptsReplay](ctx, c, http.MethodGet, "/v1/receipts/replay", replayQuery(workspace, entry, ""), nil)
}

// ReplayTree returns the files of a target at an entry as a tar archive; "" for the branch is the only one. The
// caller closes it.
func (c *Client) ReplayTree(ctx context.Context, workspace string, entry uint64, branch string) (io.ReadCloser, error) {
	return c.stream(ctx, "/v1/receipts/tree", replayQuery(workspace, entry, branch))
}
