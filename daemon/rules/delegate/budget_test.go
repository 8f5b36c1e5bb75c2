package delegate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestASharedBudget(t *testing.T) {
	has := Budget{MemoryMB: 500, Pids: 100}
	require.Equal(t, Budget{MemoryMB: 100, Pids: 20}, has.Share(Budget{}, 4), "what is not limited stays so")
	lent := Budget{MemoryMB: 300, Pids: 85}
	require.Equal(t, Budget{MemoryMB: 200, Pids: 15}, has.Own(lent))
	require.Equal(t, Budget{MemoryMB: 100, Pids: 7}, has.Share(lent, 4), "no more than is left")
	short, ok := has.Covers(lent.Plus(Budget{Pids: 8}))
	require.False(t, ok)
	require.Equal(t, "pids", short)
	require.Equal(t, Budget{MemoryMB: 192, Pids: 40}, Budget{MemoryMB: 300, Pids: 40}.Shrink(Budget{MemoryMB: 500, Pids: 50}, Budget{MemoryMB: 400, Pids: 60}, 4))
}

// An agent and all of its workers, however they come, go and are changed, have together no more than
// the agent's limits, and each has something.
func TestAnAgentAndItsWorkersHaveNoMoreThanItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) Budget {
			n := rapid.IntRange(0, 2000)
			return Budget{rapid.IntRange(16*12, 4096).Draw(t, what), rapid.SampledFrom([]int{-1, 0, 100, 512, 1000}).Draw(t, what), rapid.SampledFrom([]int{0, 100, n.Draw(t, "disk") + 50}).Draw(t, what), rapid.SampledFrom([]int{0, 1000}).Draw(t, what)}
		}
		const workers = 4
		has := draw("limits")
		var all []Budget
		sum := func() (out Budget) {
			for _, w := range all {
				out = out.Plus(w)
			}
			return out
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"delegate", "delegate", "end", "narrow"}).Draw(t, "step") {
			case "delegate":
				w := has.Share(sum(), workers)
				if rapid.Bool().Draw(t, "wish") {
					w.MemoryMB = rapid.IntRange(16, 5000).Draw(t, "memory")
				}
				positive := func(w, has int) bool { return has <= 0 || w > 0 } // as Narrow has it
				if _, ok := has.Covers(sum().Plus(w)); ok && len(all) < workers && w.MemoryMB >= 16 && positive(w.Pids, has.Pids) && positive(w.DiskMB, has.DiskMB) && positive(w.DiskFiles, has.DiskFiles) {
					all = append(all, w)
				}
			case "end":
				if len(all) > 0 {
					all = all[1:]
				}
			case "narrow":
				less := func(v, least int) int {
					return max(v*rapid.IntRange(1, 10).Draw(t, "tenths")/10, min(v, least*(workers+2)))
				}
				now := Budget{less(has.MemoryMB, 16), less(has.Pids, 8), less(has.DiskMB, 1), less(has.DiskFiles, 16)}
				before, lent := slices.Clone(all), sum()
				for i, w := range all {
					all[i] = w.Shrink(lent, now, workers)
				}
				if _, ok := now.Covers(sum()); !ok { // too little for so many: it is refused
					all = before
					break
				}
				has = now
			}
			lent := sum()
			own := has.Own(lent)
			for _, f := range [][3]int{{has.MemoryMB, own.MemoryMB, lent.MemoryMB}, {has.Pids, own.Pids, lent.Pids}, {has.DiskMB, own.DiskMB, lent.DiskMB}, {has.DiskFiles, own.DiskFiles, lent.DiskFiles}} {
				if f[0] > 0 {
					require.Positive(t, f[1])
					require.LessOrEqual(t, f[1]+f[2], f[0], "limits %+v, own %+v, workers %+v", has, own, all)
				} else {
					require.LessOrEqual(t, f[1], 0, "no limit stays no limit")
				}
			}
		}
	})
}
