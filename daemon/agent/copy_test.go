package agent

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
)

// TestACopyIsOneMomentOfTheAgent: the shim's reports, and settings, continue meanwhile.
// The race detector sees the rest.
func TestACopyIsOneMomentOfTheAgent(t *testing.T) {
	m := newLife(t.TempDir(), newKernel(), &memory{fakePorts: newFakePorts(3001, 9999), drops: map[string]int{}}).Manager
	t.Cleanup(m.Close)
	ws, err := m.Workspace("w")
	require.NoError(t, err)
	a := &Agent{WS: ws, Kept: store.Agent{Name: "alice"}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			m.ownRef(a, fmt.Sprintf("refs/heads/%d", i%5), i%2 == 1)
		}
	})
	wg.Go(func() {
		for i := range 200 {
			rules := []string{fmt.Sprint(i)}
			m.putSettings(a, store.Agent{Policy: api.Policy{Read: rules, Deny: rules}})
		}
	})
	for range 200 {
		k := a.Copy()
		require.Equal(t, k.Policy.Read, k.Policy.Deny)
		for i := range k.OwnedRefs {
			k.OwnedRefs[i] = "the caller's own"
		}
	}
	wg.Wait()
	require.NotContains(t, a.Copy().OwnedRefs, "the caller's own")
}
