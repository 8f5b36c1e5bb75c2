package client

import (
	"context"
	"net/http"

	"polis/daemon/api"
)

// InsideSocket is where an agent reaches its own shim, in its sandbox.
const InsideSocket = "/run/polis/api.sock"

// Inside talks to an agent's shim from within the agent's sandbox.
type Inside struct{ c *Client }

// NewInside returns an Inside for the socket at path; the empty path means
// InsideSocket.
func NewInside(path string) *Inside {
	if path == "" {
		path = InsideSocket
	}
	return &Inside{New(path)}
}

// Close drops idle connections.
func (i *Inside) Close() { i.c.Close() }

// InsideStatus is an agent's view of its own status.
type InsideStatus struct {
	Agent     string `json:"agent"`
	Workspace string `json:"workspace"`
	Project   string `json:"project"`
	Worktree  string `json:"worktree"`
}

// Status returns who the agent is and where its files are.
func (i *Inside) Status(ctx context.Context) (InsideStatus, error) {
	return fetch[InsideStatus](ctx, i.c, http.MethodGet, "/v1/status", nil, nil)
}

// Held lists the agent's own locks, with their waiters.
func (i *Inside) Held(ctx context.Context) (api.InsideLocks, error) {
	return fetch[api.InsideLocks](ctx, i.c, http.MethodGet, "/v1/held", nil, nil)
}

// Lock takes a lock in the agent's name.
func (i *Inside) Lock(ctx context.Context, req api.LockRequest) (api.Lock, error) {
	return fetch[api.Lock](ctx, i.c, http.MethodPost, "/v1/lock", nil, req)
}

// Unlock releases a lock of the agent.
func (i *Inside) Unlock(ctx context.Context, req api.LockRequest) error {
	return i.c.call(ctx, http.MethodPost, "/v1/unlock", nil, req, nil)
}

// Wait returns when the agent's turn for a path has come; TIMEOUT if it does not.
func (i *Inside) Wait(ctx context.Context, req api.WaitRequest) (api.WaitResponse, error) {
	return fetch[api.WaitResponse](ctx, i.c, http.MethodPost, "/v1/wait", nil, req)
}

// Done ends the agent's task at the agent's request.
func (i *Inside) Done(ctx context.Context, req api.DoneRequest) (api.DoneResponse, error) {
	return fetch[api.DoneResponse](ctx, i.c, http.MethodPost, "/v1/done", nil, req)
}

// Ask asks for a permission and waits for the answer.
func (i *Inside) Ask(ctx context.Context, req api.PermissionRequest) (api.PermissionResponse, error) {
	return fetch[api.PermissionResponse](ctx, i.c, http.MethodPost, "/v1/permission_request", nil, req)
}

// ToolDone reports that a call of a tool has ended.
func (i *Inside) ToolDone(ctx context.Context, req api.ToolDone) error {
	return i.c.call(ctx, http.MethodPost, "/v1/tool_done", nil, req, nil)
}

// StatusUpdate reports the agent's progress.
func (i *Inside) StatusUpdate(ctx context.Context, req api.StatusUpdate) error {
	return i.c.call(ctx, http.MethodPost, "/v1/status_update", nil, req, nil)
}

// TaskComplete ends the agent's task, as Done.
func (i *Inside) TaskComplete(ctx context.Context, req api.TaskComplete) (api.DoneResponse, error) {
	return fetch[api.DoneResponse](ctx, i.c, http.MethodPost, "/v1/task_complete", nil, req)
}

// Workers makes a request about workers of the agent.
func (i *Inside) Workers(ctx context.Context, req api.WorkersRequest) (api.WorkersResponse, error) {
	return fetch[api.WorkersResponse](ctx, i.c, http.MethodPost, "/v1/workers", nil, req)
}

// Timeline makes a request about the agent's own checkpoints.
func (i *Inside) Timeline(ctx context.Context, req api.TimelineRequest) (api.TimelineResponse, error) {
	return fetch[api.TimelineResponse](ctx, i.c, http.MethodPost, "/v1/timeline", nil, req)
}

// Why returns the agent's last refusals.
func (i *Inside) Why(ctx context.Context) ([]api.WhyEntry, error) {
	var out struct {
		Why []api.WhyEntry `json:"why"`
	}
	err := i.c.call(ctx, http.MethodGet, "/v1/why", nil, nil, &out)
	return out.Why, err
}

// Remote makes a request to a remote of the project. progress, if not nil, is called at each
// step.
func (i *Inside) Remote(ctx context.Context, req api.RemoteRequest, progress func(string)) (api.RemoteResponse, error) {
	var out api.RemoteResponse
	err := i.c.long(ctx, "/v1/remote", req, &out, progress)
	return out, err
}
