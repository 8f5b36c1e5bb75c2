package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// cursorShims records the last cursor that was saved.
type cursorShims struct {
	fakeShims
	saved *uint64
}

func (s cursorShims) SaveCursor(_ string, n uint64) error {
	*s.saved = n
	return nil
}

// TestAnEventOfAStopIsProcessedAgain: an event that polisd was processing when it stopped counts as one that came
// while there was no polisd, so that the end that it reports is not lost.
func TestAnEventOfAStopIsProcessedAgain(t *testing.T) {
	w, _ := tasked(t, t.TempDir())
	defer w.Close()
	var saved uint64
	w.Shims = cursorShims{fakeShims{thing{w.k, "shim"}}, &saved}
	a, sh := w.agent(t), fakeShim{w.k, "a1"}
	w.hear(t.Context(), sh, a, api.Event{ID: 1, Type: api.EventDenied})
	require.EqualValues(t, 1, saved)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	w.hear(stopped, sh, a, api.Event{ID: 2, Type: wire.EventExit})
	require.EqualValues(t, 1, saved)
	require.EqualValues(t, 1, a.last)
}
