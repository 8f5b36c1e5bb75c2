package shim

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
	"polis/daemon/host/peer"
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
	for _, r := range wire.ControlRoutes() {
		route := strings.NewReplacer("{port}", "3000", "{id}", "x").Replace(r.Pattern)
		require.Equal(t, http.StatusForbidden, ask(route, nil), route)
		require.Equal(t, http.StatusForbidden, ask(route, stranger), route)
		require.Equal(t, http.StatusForbidden, ask(route, member), route)
	}
	for _, r := range wire.TerminalRoutes() {
		route := r.Pattern
		require.Equal(t, http.StatusForbidden, ask(route, nil), route)
		require.Equal(t, http.StatusForbidden, ask(route, stranger), route)
		require.Equal(t, http.StatusBadRequest, ask(route, member), route)
	}
	require.Equal(t, http.StatusOK, ask("GET /v1/ping", peer.Peer{}), "root")
}

// TestTheShimServesTheRoutesThatAreDocumented, on both of its sockets, and no others.
func TestTheShimServesTheRoutesThatAreDocumented(t *testing.T) {
	s := &Shim{}
	inside := maps.Clone(s.insideRoutes())
	maps.Copy(inside, s.messageRoutes())
	for _, c := range []struct {
		documented []wire.Route
		served     map[string]handler
	}{{wire.ControlRoutes(), s.controlRoutes()}, {wire.TerminalRoutes(), s.terminalRoutes()}, {wire.SandboxRoutes(), inside}} {
		var patterns []string
		for _, r := range c.documented {
			patterns = append(patterns, r.Pattern)
			require.Regexp(t, `\.$`, r.About)
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(c.served)), patterns)
	}
}
