package shim

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// A command for an agent that was removed does not run in one that got its name, and socket.
func TestACommandForARemovedAgentIsRefused(t *testing.T) {
	s := &Shim{Spec: wire.Spec{Agent: "ann", Session: "second"}}
	ask := func(session string) error {
		r := httptest.NewRequest("POST", "/v1/exec", strings.NewReader(`{"command":["true"]}`))
		if session != "" {
			r.Header.Set(wire.SessionHeader, session)
		}
		return s.meant(r)
	}
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(ask("first")))
	require.NoError(t, ask("second"))
	require.NoError(t, ask(""), "of older programs")
	r := httptest.NewRequest("POST", "/v1/exec", strings.NewReader(`{"command":["true"]}`))
	r.Header.Set(wire.SessionHeader, "first")
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(s.exec(httptest.NewRecorder(), r)), "before anything is started")
}
