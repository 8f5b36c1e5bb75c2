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

// owning is a Backend that knows the checkpoints of one agent.
type owning struct {
	Backend
	t     *testing.T
	calls int
}

func (o *owning) OwnTimeline(_ context.Context, agent string, req api.TimelineRequest) (api.TimelineResponse, error) {
	o.calls++
	require.Equal(o.t, "alice", agent, "the agent is the route's, whatever the body has")
	require.Equal(o.t, req.Op == api.TimelineRewind, req.Op == api.TimelineRewind && req.Rewind != nil)
	return api.TimelineResponse{}, nil
}

// FuzzTimelineMessages: whatever an agent sends about its checkpoints is one call for that agent, or an
// error of the caller.
func FuzzTimelineMessages(f *testing.F) {
	for _, body := range []string{`{"op":"list"}`, `{"op":"checkpoint","note":"x"}`, `{"op":"rewind"}`, `{"op":"rewind","rewind":{"to":"5m","paths":["../x","\u0000"],"dry_run":true}}`,
		`{"op":"tool","tool":"Bash","note":"make"}`, `{"op":"list","agent":"bob"}`, `{"op":"steal"}`, `{"op":"list"}{"op":"rewind"}`, "[", "\xff", `{"op":null,"rewind":[]}`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := &owning{t: t}
		s := &Server{Backend: b, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		r := httptest.NewRequest(http.MethodPost, "/v1/agents/alice/own-timeline", strings.NewReader(string(body)))
		r.SetPathValue("name", "alice")
		w := httptest.NewRecorder()
		if err := s.ownTimeline(w, r); err != nil {
			require.Zero(t, b.calls)
			require.Contains(t, []api.Code{api.CodeBadRequest, api.CodeTooLarge}, api.CodeOf(err), "%v", err)
			return
		}
		require.Equal(t, 1, b.calls)
		require.Equal(t, http.StatusOK, w.Code)
	})
}
