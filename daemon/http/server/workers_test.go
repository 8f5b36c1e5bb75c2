package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// delegating is a Backend that knows the workers of one agent.
type delegating struct {
	Backend
	t      *testing.T
	calls  int
	branch string
}

func (d *delegating) call(parent string) {
	d.calls++
	require.Equal(d.t, "alice", parent, "the agent is the route's, whatever the body has")
}

func (d *delegating) Delegate(_ context.Context, parent string, req api.DelegateRequest) (api.Worker, error) {
	d.call(parent)
	d.branch = req.Branch
	return api.Worker{ID: "w"}, nil
}

func (d *delegating) Workers(_ context.Context, parent, workspace string) ([]api.Worker, error) {
	d.call(parent)
	require.Empty(d.t, workspace)
	return nil, nil
}

func (d *delegating) Worker(_ context.Context, parent, id string, _ bool) (api.Worker, error) {
	d.call(parent)
	return api.Worker{ID: id}, nil
}

func (d *delegating) CancelWorker(_ context.Context, parent, id string) (api.Worker, error) {
	d.call(parent)
	return api.Worker{ID: id}, nil
}

func (d *delegating) CleanupWorkers(_ context.Context, parent string, req api.CleanupRequest) (api.CleanupResponse, error) {
	d.call(parent)
	require.Equal(d.t, api.CleanupRequest{}, req, "an agent forces nothing")
	return api.CleanupResponse{}, nil
}

// FuzzWorkerMessages: whatever an agent sends about workers is one call for that agent, or an error
// of the caller.
func FuzzWorkerMessages(f *testing.F) {
	for _, body := range []string{`{"op":"delegate","delegate":{"requestId":"1","branch":"feat/part","task":"x","policy":{"write":["src/**"]},"memory_mb":64}}`,
		`{"op":"delegate"}`, `{"op":"list"}`, `{"op":"get","id":"w","wait_seconds":1}`, `{"op":"get","wait_seconds":-1}`, `{"op":"cancel","id":"../x"}`, `{"op":"cleanup"}`,
		`{"op":"list","agent":"bob"}`, `{"op":"steal"}`, `{"op":"list"}{"op":"cleanup"}`, "[", "\xff", `{"op":"\ud800"}`, `{"op":null,"delegate":[]}`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := &delegating{t: t}
		s := &Server{Backend: b, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		r := httptest.NewRequest(http.MethodPost, "/v1/agents/alice/workers", strings.NewReader(string(body)))
		r.SetPathValue("name", "alice")
		w := httptest.NewRecorder()
		err := s.agentWorkers(w, r)
		if err != nil {
			require.Zero(t, b.calls)
			require.Contains(t, []api.Code{api.CodeBadRequest, api.CodeTooLarge}, api.CodeOf(err), "%v", err)
			return
		}
		require.Equal(t, 1, b.calls)
		require.Equal(t, http.StatusOK, w.Code)
	})
}
