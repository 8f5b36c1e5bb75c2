package shim

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api/wire"
)

func TestWhenAnAgentAsksForMemory(t *testing.T) {
	const mb = 1 << 20
	m := memoryAsk{MemoryAsk: wire.MemoryAsk{Percent: 80, StepBytes: 100 * mb, MaxBytes: 250 * mb}}
	step := func(need, limit int64) (int64, bool) {
		want, gone := m.next(need*mb, limit*mb)
		return want / mb, gone
	}
	require.True(t, m.rests(79*mb, 100*mb))
	require.False(t, m.rests(80*mb, 100*mb), "the rest can be page cache, whose place the programs take later")
	want, gone := step(79, 100)
	require.Zero(t, want, "below the part")
	require.False(t, gone)
	want, _ = step(81, 100)
	require.EqualValues(t, 200, want)
	m.open, m.answered = true, 100*mb
	want, gone = step(99, 100)
	require.Zero(t, want, "the question is open")
	require.False(t, gone)
	require.False(t, m.rests(50*mb, 100*mb), "the question can be over")
	_, gone = step(75, 100)
	require.False(t, gone, "a little below")
	_, gone = step(60, 100)
	require.True(t, gone, "well below")
	m.open = false
	want, _ = step(85, 100)
	require.EqualValues(t, 200, want, "it asks again after it fell")
	m.answered = 100 * mb
	want, _ = step(99, 100)
	require.Zero(t, want, "a denial holds while the memory is needed")
	want, _ = step(170, 200)
	require.EqualValues(t, 250, want, "to the highest limit, and not above")
	want, _ = step(249, 250)
	require.Zero(t, want)
	want, _ = step(500, 0)
	require.Zero(t, want, "there is no limit")
}

// TestWhatIsAskedForIsMoreAndWithinTheMaximum, whatever is measured.
func TestWhatIsAskedForIsMoreAndWithinTheMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memoryAsk{MemoryAsk: wire.MemoryAsk{Percent: rapid.IntRange(50, 99).Draw(t, "percent"), StepBytes: rapid.Int64Range(1, 1<<40).Draw(t, "step"), MaxBytes: rapid.Int64Range(1, 1<<40).Draw(t, "max")}}
		for range 20 {
			limit, need := rapid.Int64Range(-1, 1<<40).Draw(t, "limit"), rapid.Int64Range(0, 1<<41).Draw(t, "need")
			was := m.open
			want, gone := m.next(need, limit)
			if want != 0 {
				require.False(t, was, "one question at a time")
				require.Greater(t, want, limit)
				require.LessOrEqual(t, want, m.MaxBytes)
				require.LessOrEqual(t, want-limit, m.StepBytes)
				m.open, m.answered = true, limit
			}
			if gone {
				require.True(t, was)
				m.open = false
			}
			require.False(t, want != 0 && gone)
		}
	})
}
