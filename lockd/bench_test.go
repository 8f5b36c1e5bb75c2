package lockd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func benchClient(b *testing.B, hold Hold) (*Server, *Client) {
	s := serve(b, filepath.Join(b.TempDir(), "s"))
	return s, join(b, s.Path, "ann", holds(hold))
}

// BenchmarkFirstGrant is a lease over the socket that the agent did not have
// (goal: median below 60 us).
func BenchmarkFirstGrant(b *testing.B) {
	_, c := benchClient(b, HoldMerge)
	ctx := context.Background()
	var took []time.Duration
	i := 0
	for b.Loop() {
		if i%50_000 == 0 {
			b.StopTimer()
			c.ReleaseAll()
			b.StartTimer()
		}
		path := fmt.Sprintf("src/pkg%d/file%d.go", i%100, i)
		i++
		start := time.Now()
		tk, err := c.Acquire(ctx, Request{Paths: []string{path}, Op: "open-write", Pid: 1})
		took = append(took, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		tk.Done()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "ns/p99")
}

// BenchmarkFirstGrantDelegated is the same in a directory that is delegated:
// no round trip (goal: below a microsecond, one allocation).
func BenchmarkFirstGrantDelegated(b *testing.B) {
	s := serve(b, filepath.Join(b.TempDir(), "s"), lends)
	c := join(b, s.Path, "ann", holds(HoldMerge))
	ctx := context.Background()
	names := make([]string, 50_000)
	for i := range names {
		names[i] = fmt.Sprintf("src/pkg%d/file%d.go", i%100, i)
	}
	start := asked(s)
	var took []time.Duration
	i := 0
	for b.Loop() {
		if i == len(names) {
			b.StopTimer()
			c.ReleaseAll()
			i = 0
			b.StartTimer()
		}
		began := time.Now()
		tk, err := c.Acquire(ctx, Request{Paths: names[i : i+1], Op: "open-write", Pid: 1})
		took = append(took, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		tk.Done()
		i++
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
	b.ReportMetric(float64(asked(s)-start)/float64(b.N), "trips/op")
}

// TestALocalGrantCostsOneAllocation counts what the lease itself needs; what ends before it is
// reported costs nothing else.
func TestALocalGrantCostsOneAllocation(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(HoldClose))
	defer acquire(t, c, "src/a").Done()
	names := make([]string, 800)
	for i := range names {
		names[i] = fmt.Sprintf("src/pkg%d/file%d.go", i%100, i)
	}
	i := 0
	n := testing.AllocsPerRun(len(names)-1, func() {
		tk, err := c.Acquire(context.Background(), Request{Paths: names[i : i+1], Op: "open-write", Pid: 1})
		if err == nil {
			tk.Done()
		}
		i++
	})
	require.Equal(t, uint64(1), asked(s))
	require.LessOrEqual(t, n, 2.0, "the lease, and now and then a longer list")
}

// BenchmarkHeld is a lease the agent has already: no round trip.
func BenchmarkHeld(b *testing.B) {
	_, c := benchClient(b, Hold(DefaultHold))
	ctx := context.Background()
	for b.Loop() {
		tk, err := c.Acquire(ctx, Request{Paths: []string{"src/main.go"}})
		if err != nil {
			b.Fatal(err)
		}
		tk.Done()
	}
}

// BenchmarkHandOver is a lease that goes from one agent to another that waits.
func BenchmarkHandOver(b *testing.B) {
	s, x := benchClient(b, HoldClose)
	y := join(b, s.Path, "bob", holds(HoldClose), waits(time.Minute))
	x.WaitFor = y.WaitFor
	ctx := context.Background()
	pass, done := make(chan struct{}), make(chan error)
	go func() {
		defer close(done)
		for range pass {
			tk, err := y.Acquire(ctx, Request{Paths: []string{"f"}})
			if err == nil {
				tk.Done()
			}
			done <- err
		}
	}()
	for b.Loop() {
		tk, err := x.Acquire(ctx, Request{Paths: []string{"f"}})
		require.NoError(b, err)
		pass <- struct{}{}
		tk.Done()
		require.NoError(b, <-done)
	}
	close(pass)
	<-done
}
