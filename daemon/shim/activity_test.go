package shim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAShimRestsOnlyWhileAPolisdWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newActivity(nil)
		time.Sleep(time.Hour)
		require.False(t, a.rest(), "no polisd watches")
		one, two := a.watched(), a.watched()
		require.True(t, a.rest())
		a.resume()
		require.Len(t, a.wake, 1)
		require.False(t, a.rest(), "it was woken")
		time.Sleep(awake + time.Millisecond)
		require.True(t, a.rest())
		one()
		time.Sleep(awake + time.Millisecond)
		require.True(t, a.rest(), "another one watches")
		<-a.wake
		two()
		require.Len(t, a.wake, 1, "the watcher continues by itself")
		time.Sleep(time.Hour)
		require.False(t, a.rest())
	})
}

func TestMemoryIsNotMeasuredWhileTheAgentDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newActivity(nil)
		stop := make(chan struct{})
		var at []time.Duration
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for paced(a.memory, 5*time.Second, stop, nil) {
				at = append(at, time.Since(began))
			}
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, at)
		a.ran()
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Hour}, at, "at once after a pause")
		for range 100 {
			a.ran()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.InDelta(t, 1+100/5, len(at), 1)
		close(stop)
		<-done
	})
}
