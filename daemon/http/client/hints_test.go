package client

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// TestHintsOfBrokenConnections has polisd and shims answer what they never should, or not at all.
// The commands of the hints read the state, which a working polisd answers.
func TestHintsOfBrokenConnections(t *testing.T) {
	hint := func(err error) string {
		t.Helper()
		require.Error(t, err)
		return api.AsError(err).Hint
	}
	_, err := serve(t, reply(200, "application/json", "no JSON")).Status(t.Context())
	require.Equal(t, "are polisctl and polisd of the same version? compare them with: polisctl version", hint(err))

	drop := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Errorf("drop the connection: %v", err)
		}
	}
	_, err = serve(t, http.HandlerFunc(drop)).Status(t.Context())
	require.Equal(t, "polisd may have been restarted; see: polisctl status", hint(err))

	exec := wire.ExecRequest{Command: []string{"true"}}
	_, err = shimWith(t, drop).Exec(t.Context(), "claude", exec)
	require.Equal(t, "see: polisctl agents list", hint(err))
	_, err = shimWith(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "another")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}).Exec(t.Context(), "claude", exec)
	require.Equal(t, "it may be of another version: polisctl agents stop claude && polisctl agents start claude", hint(err))
}
