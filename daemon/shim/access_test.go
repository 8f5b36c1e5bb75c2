package shim

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/peer"
	"polis/daemon/shim/wire"
)

// TestAShimAnswersPolisd, members of the group for their terminals, and no other user.
func TestAShimAnswersPolisd(t *testing.T) {
	s := &Shim{Spec: wire.Spec{Agent: "alice", SocketGID: 4242}}
	mux := s.control()
	other := uint32(os.Geteuid()) + 1
	member := peer.Peer{UID: other, GID: other, Groups: []uint32{4242}}
	stranger := peer.Peer{UID: other, GID: other}
	ask := func(route string, p any) int {
		method, path, _ := strings.Cut(route, " ")
		ctx := t.Context()
		if p != nil {
			ctx = context.WithValue(ctx, peerKey{}, p)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("not json")))
		return w.Code
	}
	for _, route := range []string{"GET /v1/ping", "GET /v1/status", "GET /v1/why", "GET /v1/events", "POST /v1/start", "POST /v1/stop", "POST /v1/input",
		"POST /v1/settings", "POST /v1/look", "POST /v1/ports", "DELETE /v1/ports/3000", "POST /v1/invalidate"} {
		require.Equal(t, http.StatusForbidden, ask(route, nil), route)
		require.Equal(t, http.StatusForbidden, ask(route, stranger), route)
		require.Equal(t, http.StatusForbidden, ask(route, member), route)
	}
	for _, route := range []string{"POST /v1/exec", "POST /v1/attach"} {
		require.Equal(t, http.StatusForbidden, ask(route, nil), route)
		require.Equal(t, http.StatusForbidden, ask(route, stranger), route)
		require.Equal(t, http.StatusBadRequest, ask(route, member), route)
	}
	require.Equal(t, http.StatusOK, ask("GET /v1/ping", peer.Peer{}), "root")
}
