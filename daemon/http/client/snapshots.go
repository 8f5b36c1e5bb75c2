package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"polis/daemon/api"
)

// CreateSnapshot makes a snapshot of an agent's files.
func (c *Client) CreateSnapshot(ctx context.Context, agent string, req api.SnapshotRequest) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodPost, agentPath(agent, "snapshots"), nil, req)
}

// Snapshots lists the snapshots of a workspace and of an agent, or all if these are empty.
func (c *Client) Snapshots(ctx context.Context, workspace, agent string) ([]api.Snapshot, error) {
	query := url.Values{}
	for key, v := range map[string]string{"workspace": workspace, "agent": agent} {
		if v != "" {
			query.Set(key, v)
		}
	}
	var out struct {
		Snapshots []api.Snapshot `json:"snapshots"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/snapshots", query, nil, &out)
	return out.Snapshots, err
}

func snapshotPath(id, what string) string {
	p := "/v1/snapshots/" + url.PathEscape(id)
	if what != "" {
		p += "/" + what
	}
	return p
}

// Snapshot returns one snapshot.
func (c *Client) Snapshot(ctx context.Context, id string) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodGet, snapshotPath(id, ""), nil, nil)
}

// SnapshotFiles returns the files, links and directories of a snapshot.
func (c *Client) SnapshotFiles(ctx context.Context, id string) ([]api.SnapshotFile, error) {
	var out struct {
		Files []api.SnapshotFile `json:"files"`
	}
	err := c.call(ctx, http.MethodGet, snapshotPath(id, "files"), nil, nil, &out)
	return out.Files, err
}

// SnapshotContent returns the content of a file of a snapshot. The caller closes it.
func (c *Client) SnapshotContent(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return c.stream(ctx, snapshotPath(id, "content"), url.Values{"path": {path}})
}

// DiffSnapshot returns how another snapshot differs from one, or the agent's files now if to is
// empty.
func (c *Client) DiffSnapshot(ctx context.Context, id, to string) (api.SnapshotDiff, error) {
	query := url.Values{}
	if to != "" {
		query.Set("to", to)
	}
	return fetch[api.SnapshotDiff](ctx, c, http.MethodGet, snapshotPath(id, "diff"), query, nil)
}

// DiffTimeline returns how an agent's files at a later moment differ from those at an earlier one, as
// RewindRequest.To names them; or how they differ now if to is empty.
func (c *Client) DiffTimeline(ctx context.Context, agent, from, to string) (api.SnapshotDiff, error) {
	query := url.Values{}
	for key, v := range map[string]string{"from": from, "to": to} {
		if v != "" {
			query.Set(key, v)
		}
	}
	return fetch[api.SnapshotDiff](ctx, c, http.MethodGet, agentPath(agent, "timeline/diff"), query, nil)
}

// VerifySnapshot compares everything that a snapshot needs with its hashes.
func (c *Client) VerifySnapshot(ctx context.Context, id string) (api.SnapshotCheck, error) {
	return fetch[api.SnapshotCheck](ctx, c, http.MethodGet, snapshotPath(id, "verify"), nil, nil)
}

// CompareSnapshot is VerifySnapshot, and compares the files of an agent with the snapshot; "" is the
// agent that it is of.
func (c *Client) CompareSnapshot(ctx context.Context, id, agent string) (api.SnapshotCheck, error) {
	query := url.Values{"worktree": {"true"}}
	if agent != "" {
		query = url.Values{"against": {agent}}
	}
	return fetch[api.SnapshotCheck](ctx, c, http.MethodGet, snapshotPath(id, "verify"), query, nil)
}

// MountSnapshot mounts a snapshot read-only.
func (c *Client) MountSnapshot(ctx context.Context, id string, req api.SnapshotMountRequest) (api.SnapshotMount, error) {
	return fetch[api.SnapshotMount](ctx, c, http.MethodPost, snapshotPath(id, "mount"), nil, req)
}

// UnmountSnapshot unmounts a snapshot, on the host or in the sandbox of its agent.
func (c *Client) UnmountSnapshot(ctx context.Context, id string, inside bool) (api.SnapshotMount, error) {
	var q url.Values
	if inside {
		q = url.Values{"inside": {"true"}}
	}
	return fetch[api.SnapshotMount](ctx, c, http.MethodDelete, snapshotPath(id, "mount"), q, nil)
}

// RestoreSnapshot brings an agent's files back to a snapshot.
func (c *Client) RestoreSnapshot(ctx context.Context, id string, req api.SnapshotRestoreRequest) (api.SnapshotRestored, error) {
	return fetch[api.SnapshotRestored](ctx, c, http.MethodPost, snapshotPath(id, "restore"), nil, req)
}

// RemoveSnapshot deletes a snapshot.
func (c *Client) RemoveSnapshot(ctx context.Context, id string) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodDelete, snapshotPath(id, ""), nil, nil)
}

// Timeline lists the checkpoints and snapshots of an agent, oldest first.
func (c *Client) Timeline(ctx context.Context, agent string) ([]api.Snapshot, error) {
	var out struct {
		Checkpoints []api.Snapshot `json:"checkpoints"`
	}
	err := c.call(ctx, http.MethodGet, agentPath(agent, "timeline"), nil, nil, &out)
	return out.Checkpoints, err
}

// Checkpoint makes a checkpoint of an agent's files, or returns the last one if nothing has changed.
func (c *Client) Checkpoint(ctx context.Context, agent string, req api.CheckpointRequest) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodPost, agentPath(agent, "checkpoints"), nil, req)
}

// Rewind brings files of an agent back to an earlier state.
func (c *Client) Rewind(ctx context.Context, agent string, req api.RewindRequest) (api.SnapshotRestored, error) {
	return fetch[api.SnapshotRestored](ctx, c, http.MethodPost, agentPath(agent, "rewind"), nil, req)
}
