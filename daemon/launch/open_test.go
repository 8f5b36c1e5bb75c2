package launch

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCloseEndsTheLastOneFirst: what was started later may use what was started before.
func TestCloseEndsTheLastOneFirst(t *testing.T) {
	s := &Shims{}
	var mu sync.Mutex
	var ended []int
	running := make(chan int)
	var runs []func(context.Context)
	for i := range 3 {
		runs = append(runs, func(ctx context.Context) {
			running <- i
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, i)
		})
	}
	s.start(t.Context(), runs...)
	for range runs {
		<-running
	}
	s.Close()
	require.Equal(t, []int{2, 1, 0}, ended)
	s.Close() // nothing is left to end
	require.Len(t, ended, 3)
}

// TestWhatWatchesEndsWithPolisd: polisd cancels all of it, and Close waits for each.
func TestWhatWatchesEndsWithPolisd(t *testing.T) {
	s := &Shims{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make([]bool, 2)
	s.start(ctx, func(ctx context.Context) { <-ctx.Done(); ended[0] = true }, func(ctx context.Context) { <-ctx.Done(); ended[1] = true })
	cancel()
	s.Close()
	require.Equal(t, []bool{true, true}, ended)
}
