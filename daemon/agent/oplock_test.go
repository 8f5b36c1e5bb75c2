package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOperationsOfAnAgentTakeTurnsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l opLock
		require.NoError(t, l.Acquire(t.Context()))
		turns := make(chan int, 3)
		for i := range 3 {
			go func() {
				if l.Acquire(t.Context()) == nil {
					turns <- i
					l.Unlock()
				}
			}()
			synctest.Wait()
		}
		require.Empty(t, turns)
		l.Unlock()
		for i := range 3 {
			require.Equal(t, i, <-turns)
		}
	})
}

func TestAnOperationWaitsNoLongerThanItsCallerOrAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l opLock
		l.Lock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, l.Acquire(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		start = time.Now()
		require.ErrorIs(t, l.Acquire(t.Context()), context.DeadlineExceeded)
		require.Equal(t, opWait, time.Since(start))
		l.Unlock()
		require.NoError(t, l.Acquire(ctx), "a free lock is acquired also after the end of ctx")
	})
}
