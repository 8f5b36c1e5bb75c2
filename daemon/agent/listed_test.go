package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestWorkspacesToChooseFromAreNamedWhole, however many there are.
func TestWorkspacesToChooseFromAreNamedWhole(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	for i := range 20 {
		name := fmt.Sprintf("%s-%02d", strings.Repeat("long", 12), i)
		w.mu.Lock()
		w.workspaces[name] = &Workspace{Name: name}
		w.mu.Unlock()
	}
	_, err := w.Workspace("")
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	require.NotContains(t, err.Error(), "...")
	require.Contains(t, err.Error(), "-06, ")
	require.Contains(t, err.Error(), "more (polisctl status lists them)")
}
