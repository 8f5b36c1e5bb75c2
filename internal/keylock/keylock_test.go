package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneHasTheLockOfAName(t *testing.T) {
	var s Set
	var a, b int // each is guarded by the lock of its name
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				for name, n := range map[string]*int{"a": &a, "b": &b} {
					unlock, err := s.Lock(t.Context(), name)
					if err != nil {
						t.Error(err)
						return
					}
					*n++
					unlock()
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int{1600, 1600}, []int{a, b})
	require.Empty(t, s.busy, "nothing is kept of a name that nobody locks")
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	var s Set
	unlock, err := s.Lock(t.Context(), "a")
	require.NoError(t, err)
	reason := errors.New("no time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	_, err = s.Lock(ctx, "a")
	require.ErrorIs(t, err, reason)
	other, err := s.Lock(t.Context(), "b")
	require.NoError(t, err, "another name is free")
	other()
	unlock()
	again, err := s.Lock(t.Context(), "a")
	require.NoError(t, err)
	again()
}
