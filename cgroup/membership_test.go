package cgroup

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hosts are this machine as it is, and as if it had cgroup v2 only.
func hosts(t *testing.T) map[string]*Host {
	h := needRoot(t)
	out := map[string]*Host{string(h.Mode): h}
	if i := slices.IndexFunc(h.hierarchies, func(h hierarchy) bool { return h.v2 }); i >= 0 {
		out["only v2"] = &Host{Mode: V2, hierarchies: h.hierarchies[i : i+1]}
	}
	return out
}

func ownGroups(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	return string(b)
}

func TestAProcessJoinsASiblingGroupAndIsRestored(t *testing.T) {
	for name, h := range hosts(t) {
		t.Run(name, func(t *testing.T) {
			before := ownGroups(t)
			g := group(t, h)
			s, err := h.Join(g.Path + "/supervisor")
			require.NoError(t, err)
			moved := 0
			for line := range strings.Lines(ownGroups(t)) {
				parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
				shares := slices.ContainsFunc(sharing, func(c string) bool { return slices.Contains(strings.Split(parts[1], ","), c) })
				if h.Mode == V2 {
					shares = parts[1] == ""
				}
				require.Equal(t, shares, parts[2] == g.Path+"/supervisor", line)
				if shares {
					moved++
				}
			}
			require.NotZero(t, moved)
			require.NoError(t, s.Restore(t.Context()))
			require.Equal(t, before, ownGroups(t))
			names, err := h.List(g.Path)
			require.NoError(t, err)
			require.Empty(t, names)
		})
	}
}

// Where it came from may be gone when it leaves, with the session it was started in.
func TestAProcessWhosePreviousGroupIsGoneMovesToTheRoot(t *testing.T) {
	for name, h := range hosts(t) {
		t.Run(name, func(t *testing.T) {
			home, err := h.Join(group(t, h).Path + "/session")
			require.NoError(t, err)
			s, err := h.Join(group(t, h).Path + "/supervisor")
			require.NoError(t, err)
			require.NoError(t, home.group.Remove(t.Context()))
			require.NoError(t, s.Restore(t.Context()))
			require.NotContains(t, ownGroups(t), "supervisor")
			require.NotContains(t, ownGroups(t), "session")
			require.NoError(t, home.Restore(t.Context()), "where it was at first")
		})
	}
}

func TestJoiningNeedsAGoodPath(t *testing.T) {
	h := needRoot(t)
	_, err := h.Join("/../x")
	require.ErrorIs(t, err, ErrPath)
	_, err = h.Join("/")
	require.ErrorIs(t, err, ErrPath)
}

// The group above sandbox and shim gets the weights, and nothing else changes.
func TestSettingWeightsKeepsLimits(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{CPUPercent: 150, CPUWeight: 100, Pids: 44}))
	for w, want := range map[int64]int64{250: 250, 1: 1, 0: 100} {
		require.NoError(t, g.SetWeights(Limits{CPUWeight: w, IOWeight: w, Pids: 7, MemoryBytes: 1 << 30, CPUPercent: 10}))
		hier, _ := h.controller(cpu)
		var got string
		var err error
		if hier.v2 {
			got, err = readFile(g.dir(hier), "cpu.weight")
			require.Equal(t, fmt.Sprint(want), got)
		} else {
			got, err = readFile(g.dir(hier), "cpu.shares")
			require.Equal(t, fmt.Sprint(shares(want)), got)
		}
		require.NoError(t, err)
		require.Equal(t, "150000", quotaOf(t, g))
		st, err := g.Stats()
		require.NoError(t, err)
		require.EqualValues(t, 44, st.PidsLimit)
	}
	require.Error(t, g.SetWeights(Limits{CPUWeight: 10001}))
	none, err := h.Group(g.Path + "/none")
	require.NoError(t, err)
	require.NoError(t, none.SetWeights(Limits{CPUWeight: 50, IOWeight: 50}), "there is nothing to weigh")
}
