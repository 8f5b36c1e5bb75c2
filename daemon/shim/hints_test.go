package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// TestHintsOfAShimThatIsBusy: polisd sends neither request twice, except in a race.
func TestHintsOfAShimThatIsBusy(t *testing.T) {
	s := &Shim{Spec: wire.Spec{Agent: "alice"}}
	s.freezer.frozen = &api.Frozen{By: api.FrozenByPatrol}
	require.Equal(t, "polisctl agents thaw alice", api.AsError(s.freeze(t.Context(), api.Frozen{}, time.Second)).Hint)
	err := s.startMain(t.Context(), wire.StartRequest{Command: []string{"true"}})
	require.Equal(t, "polisctl agents thaw alice lets it continue, polisctl agents stop alice ends it", api.AsError(err).Hint)
	s.freezer.frozen = nil
	s.main = &session{done: make(chan struct{})}
	err = s.startMain(t.Context(), wire.StartRequest{Command: []string{"true"}})
	require.Equal(t, "polisctl agents attach alice shows it, polisctl agents stop alice ends it", api.AsError(err).Hint)
}
