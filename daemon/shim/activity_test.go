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
		require.Len(t, a.wake, 1, "the watcher goes on by itself")
		time.Sleep(time.Hour)
		require.False(t, a.rest())
	})
}
