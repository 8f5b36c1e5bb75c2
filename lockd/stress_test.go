package lockd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stressTime is how long agents contend: 10 s, or POLIS_STRESS.
func stressTime(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("POLIS_STRESS")
	if s == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(s)
	require.NoError(t, err)
	return d
}

// TestTenAgentsContendForAHundredFiles has ten agents take five of a hundred
// files at a time, again and again, so that most requests meet others.
//
// Feature: multi-agent-workspaces, Property 6: Advisory Lock Mutual Exclusion
func TestTenAgentsContendForAHundredFiles(t *testing.T) {
	const agents, files, each = 10, 100, 5
	s := serve(t, socket(t), lends)
	var owner [files]atomic.Int32 // agent plus one
	var token [files]atomic.Uint64
	var granted, refused [agents]int
	var fault atomic.Pointer[string]
	report := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		fault.CompareAndSwap(nil, &text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stressTime(t))
	defer cancel()
	var wg sync.WaitGroup
	for a := range agents {
		c := join(t, s.Path, fmt.Sprint("agent", a), holds(HoldClose), waits(time.Second), func(c *Client) { c.Bound = 30 * time.Second })
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(a)))
			for ctx.Err() == nil && fault.Load() == nil {
				mine := r.Perm(files)[:each]
				var paths []string
				for _, f := range mine {
					paths = append(paths, fmt.Sprintf("d%d/f%d", f%7, f))
				}
				tk, err := c.Acquire(ctx, Request{Paths: paths})
				var ce *ConflictError
				switch {
				case errors.As(err, &ce):
					refused[a]++
					continue
				case err != nil:
					if ctx.Err() == nil {
						report("agent %d was neither served nor refused within its bound: %v", a, err)
					}
					return
				}
				granted[a]++
				for _, f := range mine {
					if by := owner[f].Swap(int32(a + 1)); by != 0 {
						report("agents %d and %d both have file %d", by-1, a, f)
					}
					if old := token[f].Swap(tk.Token()); old >= tk.Token() {
						report("token of file %d went from %d to %d", f, old, tk.Token())
					}
				}
				time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
				for _, f := range mine {
					owner[f].Store(0)
				}
				tk.Done()
			}
		})
	}
	wg.Wait()
	if f := fault.Load(); f != nil {
		t.Fatal(*f)
	}
	st := s.Stats()
	t.Logf("granted %v, refused %v, delegated %d, recalled %d", granted, refused, st.Delegated, st.Recalled)
	require.NotZero(t, st.Recalled)
	require.NotZero(t, slices.Min(granted[:]))
	require.LessOrEqual(t, slices.Max(granted[:]), 2*slices.Min(granted[:]), "fair within a factor of two")
	soon(t, func() bool { st := s.Stats(); return st.Leases == 0 && st.Waiters == 0 })
}

func TestTenThousandLeases(t *testing.T) {
	s := serve(t, socket(t))
	c := join(t, s.Path, "ann", holds(HoldMerge))
	for i := range 10 {
		var paths []string
		for k := range 1000 {
			paths = append(paths, fmt.Sprintf("d%d/f%d", i, k))
		}
		acquire(t, c, paths...).Done()
	}
	own, total, err := c.Own(t.Context())
	require.NoError(t, err)
	require.Equal(t, 10_000, total)
	require.NotEmpty(t, own)
	require.Equal(t, 10_000, c.Held())
	require.Equal(t, "ann", conflict(t, join(t, s.Path, "bob", waits(0)), "d7/f999").Holder)
	c.ReleaseAll()
	soon(t, func() bool { return s.Stats().Leases == 0 })
}
