package server

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (nothing) Recordable() error        { return nil }
func (nothing) Recorded(context.Context) {}

// full is a backend whose receipts cannot be written.
type full struct {
	nothing
}

func (*full) Recordable() error { return api.Errorf(api.CodeAuditFull, "no room") }

// TestWhatFreesIsNeverRefusedForReceipts: everything else that changes something is.
func TestWhatFreesIsNeverRefusedForReceipts(t *testing.T) {
	for pattern, want := range map[string]bool{"DELETE /v1/agents/{name}": true, "POST /v1/agents/{name}/stop": true, "POST /v1/gc": true, "POST /v1/tasks/{id}/cancel": true,
		"POST /v1/agents": false, "PATCH /v1/agents/{name}": false, "POST /v1/agents/{name}/merge": false, "POST /v1/approvals/{id}": false} {
		require.Equal(t, want, frees(pattern), pattern)
	}
	s := &Server{Backend: &full{}}
	called := false
	serve := func(*Server, http.ResponseWriter, *http.Request) error { called = true; return nil }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	require.NoError(t, err)
	require.Equal(t, api.CodeAuditFull, api.CodeOf(s.recorded(Route{Pattern: "POST /v1/agents", Access: AccessAdmin, serve: serve}, nil, req)))
	require.False(t, called)
	require.NoError(t, s.recorded(Route{Pattern: "DELETE /v1/agents/{name}", Access: AccessAdmin, serve: serve}, nil, req))
	require.True(t, called)
	called = false
	require.NoError(t, s.recorded(Route{Pattern: "GET /v1/agents", Access: AccessRead, serve: serve}, nil, req))
	require.True(t, called)
}

func (streaming) Recordable() error        { return nil }
func (streaming) Recorded(context.Context) {}

func (delegating) Recordable() error        { return nil }
func (delegating) Recorded(context.Context) {}
