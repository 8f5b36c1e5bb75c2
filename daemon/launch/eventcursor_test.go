package launch

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/host/private"
	"polis/daemon/store/layout"
)

// TestTheLastNumberIsRead: it is the last one that was saved, also in a later polisd.
func TestTheLastNumberIsRead(t *testing.T) {
	run := layout.Run(t.TempDir())
	require.NoError(t, private.Dir(run.Agents()))
	require.NoError(t, private.Dir(run.Agent("a")))
	rapid.Check(t, func(t *rapid.T) {
		s := &Shims{Deps: Deps{Run: run}}
		numbers := rapid.SliceOfN(rapid.Uint64(), 1, 5).Draw(t, "numbers")
		for _, n := range numbers {
			require.NoError(t, s.SaveCursor("a", n))
		}
		got, ok := (&Shims{Deps: Deps{Run: run}}).LoadCursor("a")
		require.True(t, ok)
		require.Equal(t, numbers[len(numbers)-1], got)
	})
}

// TestNoNumberIsNotZero: a shim that sent no event has no number, and neither has one whose file is damaged.
func TestNoNumberIsNotZero(t *testing.T) {
	run := layout.Run(t.TempDir())
	require.NoError(t, private.Dir(run.Agents()))
	require.NoError(t, private.Dir(run.Agent("a")))
	s := &Shims{Deps: Deps{Run: run}}
	_, ok := s.LoadCursor("a")
	require.False(t, ok)
	for _, text := range []string{"", "7\n", "0000000000000000000x\n", "99999999999999999999\n"} {
		require.NoError(t, os.WriteFile(s.seenFile("a"), []byte(text), 0o600))
		_, ok := s.LoadCursor("a")
		require.False(t, ok, "%q", text)
	}
}
