package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/config"
)

const gb = int64(1) << 30

func roomy(w *world, c Capacity) {
	w.Capacity = func(*Workspace) (Capacity, error) { return c, nil }
}

func TestAnAgentThatTheMachineHasNoRoomForIsRefused(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ctx := t.Context()
	roomy(w, Capacity{MemoryBytes: gb, Pids: 32768, FreeBytes: 100 * gb})
	c := w.config()
	c.Admission = config.Admission{ReserveMB: 512, Overcommit: 2, DiskFreeMB: 100}
	w.SetConfig(c)
	for i := range 2 { // (1024 - 512) * 2 is two of 512
		_, err := w.Add(ctx, api.AddRequest{Name: fmt.Sprintf("a%d", i), BaseType: "custom"})
		require.NoError(t, err)
	}
	_, err := w.Add(ctx, api.AddRequest{Name: "a2", BaseType: "custom"})
	require.Equal(t, api.CodeHostOvercommitted, api.CodeOf(err))
	e := api.AsError(err)
	require.Equal(t, map[string]any{"resource": "memory", "wanted": int64(512), "given": int64(1024), "limit": int64(1024), "agents": 2}, e.Details)
	require.Contains(t, e.Message, "memory 1024 MB less 512 MB for the host, times 2")
	w.check(t, map[string]api.Status{"a0": api.StatusIdle, "a1": api.StatusIdle})

	_, err = w.Stop(ctx, "a1")
	require.NoError(t, err)
	_, err = w.Add(ctx, api.AddRequest{Name: "a2", BaseType: "custom", AgentSpec: api.AgentSpec{MemoryMB: 500}})
	require.NoError(t, err, "who does not live counts nothing")
	_, err = w.Start(ctx, "a1", false)
	require.Equal(t, api.CodeHostOvercommitted, api.CodeOf(err))
	a, err := w.Get(ctx, "a1")
	require.NoError(t, err)
	require.Equal(t, api.StatusStopped, a.Status, "it is what it was")
	_, err = w.Start(ctx, "a1", true)
	require.NoError(t, err)
	_, err = w.Add(ctx, api.AddRequest{Name: "a3", BaseType: "custom", AgentSpec: api.AgentSpec{Force: true}})
	require.NoError(t, err)
}

func TestProcessesDiskAndTotalsCountToo(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	add := func(name string, l api.Limits) error {
		_, err := w.Add(t.Context(), api.AddRequest{Name: name, BaseType: "custom", AgentSpec: api.AgentSpec{Limits: l}})
		return err
	}
	refused := func(err error, resource string) {
		require.Equal(t, api.CodeHostOvercommitted, api.CodeOf(err), "%v", err)
		require.Equal(t, resource, api.AsError(err).Details["resource"])
	}
	c := w.config()
	c.Admission = config.Admission{Overcommit: 1, DiskFreeMB: 100}
	w.SetConfig(c)
	roomy(w, Capacity{MemoryBytes: 100 * gb, Pids: 1000, FreeBytes: 99 << 20})
	refused(add("a0", api.Limits{}), "disk")
	roomy(w, Capacity{MemoryBytes: 100 * gb, Pids: 1000, FreeBytes: 100 << 20})
	require.NoError(t, add("a0", api.Limits{Pids: 900}))
	refused(add("a1", api.Limits{Pids: 101}), "processes")
	require.NoError(t, add("a1", api.Limits{Pids: 100}))
	c.Limits.Total.MemoryMB = 1024
	w.SetConfig(c)
	roomy(w, Capacity{MemoryBytes: 100 * gb, FreeBytes: gb})
	refused(add("a2", api.Limits{}), "memory")
	w.Capacity = func(*Workspace) (Capacity, error) { return Capacity{}, errInjected }
	require.ErrorIs(t, add("a2", api.Limits{}), errInjected, "what cannot be known is not allowed")
}

// TestAgentsThatComeAtOnceAreNotAllLetIn: what is promised is never more than
// there is, however many ask at the same time.
func TestAgentsThatComeAtOnceAreNotAllLetIn(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(dir)
		defer w.Close()
		fit := rapid.IntRange(0, 4).Draw(t, "fit")
		asking := rapid.IntRange(1, 8).Draw(t, "asking")
		roomy(w, Capacity{MemoryBytes: int64(fit) * 512 << 20, FreeBytes: gb})
		c := w.config()
		c.Admission, c.MaxAgents = config.Admission{Overcommit: 1}, 100
		w.SetConfig(c)
		var wg sync.WaitGroup
		errs := make([]error, asking)
		for i := range asking {
			wg.Go(func() {
				_, errs[i] = w.Add(t.Context(), api.AddRequest{Name: fmt.Sprintf("a%d", i), BaseType: "custom"})
			})
		}
		wg.Wait()
		in := 0
		for _, err := range errs {
			if err == nil {
				in++
			} else {
				require.Equal(t, api.CodeHostOvercommitted, api.CodeOf(err), "%v", errors.Unwrap(err))
			}
		}
		require.Equal(t, min(fit, asking), in)
	})
}

func TestTheCapacityIsTheMachinesOrThatOfItsContainer(t *testing.T) {
	for own, want := range map[uint64]int64{0: 100, 60: 60, 100: 100, 200: 100} {
		require.Equal(t, Capacity{MemoryBytes: want, Pids: 3}, Capacity{Pids: 3}.WithMemory(100, own), own)
	}
}
