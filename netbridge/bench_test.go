package netbridge

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an agent's network costs, and how many there are already.
func BenchmarkEnsureAndRemove(b *testing.B) {
	for _, agents := range []int{0, 20} {
		b.Run(fmt.Sprintf("beside-%d", agents), func(b *testing.B) {
			br := newBridge(b)
			for i := range agents {
				_, err := br.Ensure(b.Context(), fmt.Sprintf("other-%d", i))
				require.NoError(b, err)
			}
			for b.Loop() {
				_, err := br.Ensure(b.Context(), "claude")
				require.NoError(b, err)
				b.StopTimer()
				require.NoError(b, br.Remove(b.Context(), "claude"))
				b.StartTimer()
			}
		})
	}
}

func BenchmarkEnsureAgain(b *testing.B) {
	br := newBridge(b)
	for b.Loop() {
		_, err := br.Ensure(b.Context(), "claude")
		require.NoError(b, err)
	}
}

func BenchmarkListeners(b *testing.B) {
	br := newBridge(b)
	_, ns := ensure(b, br, "claude")
	listen(b, ns, "127.0.0.1:3000", "x")
	for b.Loop() {
		_, err := ns.Listeners(b.Context())
		require.NoError(b, err)
	}
}
