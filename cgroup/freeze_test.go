package cgroup

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// frozenHosts are the machine as it is, and as one that has only the v2 freezer.
func frozenHosts(t *testing.T) map[string]*Host {
	h := needRoot(t)
	hosts := map[string]*Host{"as detected": h}
	if i := slices.IndexFunc(h.hierarchies, func(h hierarchy) bool { return h.v2 }); i >= 0 && h.Mode == Hybrid {
		hosts["v2 freezer"] = &Host{Mode: Hybrid, hierarchies: h.hierarchies[i : i+1]}
	}
	return hosts
}

func never(string) bool { return false }

func TestFrozenProcessesStandUntilTheyAreThawed(t *testing.T) {
	for name, h := range frozenHosts(t) {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/count" // removed after the group, whose processes write there
			g := group(t, h)
			require.NoError(t, g.Ensure(Limits{}))
			start(t, g, "sh", "-c", "while :; do echo x >> "+file+"; done & while :; do sleep 0.01; done")
			size := func() int64 {
				fi, err := os.Stat(file)
				if err != nil {
					return 0
				}
				return fi.Size()
			}
			require.Eventually(t, func() bool { return size() > 0 }, 20*time.Second, time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			require.NoError(t, g.Freeze(true))
			require.NoError(t, g.AwaitFrozen(ctx, never))
			at := size()
			time.Sleep(50 * time.Millisecond) // nothing happens, for a while
			require.Equal(t, at, size())
			require.NoError(t, g.Freeze(false))
			require.Eventually(t, func() bool { return size() > at }, 20*time.Second, time.Millisecond)
		})
	}
}

func TestWhatIsNotFrozenInTimeIsNamed(t *testing.T) {
	g := group(t, needRoot(t))
	require.NoError(t, g.Ensure(Limits{}))
	cmd := start(t, g, "sleep", "1000")
	require.Eventually(t, func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/comm")
		return err == nil && string(b) == "sleep\n"
	}, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := g.AwaitFrozen(ctx, never) // nothing ordered it to freeze
	require.ErrorIs(t, err, ErrNotFrozen)
	var not *NotFrozenError
	require.ErrorAs(t, err, &not)
	require.Equal(t, cmd.Process.Pid, not.TID)
	require.NoError(t, g.AwaitFrozen(t.Context(), func(wchan string) bool { return wchan == not.Wchan }), "what the caller excuses counts as stopped")
}
