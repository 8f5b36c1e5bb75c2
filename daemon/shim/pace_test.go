package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOperationsAreSpacedByWhatTheyTake(t *testing.T) {
	p := &pace{least: time.Second, share: 20}
	at := time.Unix(1e9, 0)
	end, wait := p.begin(at)
	require.NotNil(t, end)
	require.Zero(t, wait)
	second, wait := p.begin(at)
	require.Nil(t, second, "one at a time")
	require.Equal(t, time.Second, wait)
	at = at.Add(10 * time.Millisecond)
	end(at)
	second, wait = p.begin(at)
	require.Nil(t, second)
	require.Equal(t, time.Second, wait)
	at = at.Add(time.Second)
	end, _ = p.begin(at)
	require.NotNil(t, end)
	at = at.Add(time.Second) // a long one
	end(at)
	_, wait = p.begin(at)
	require.Equal(t, 20*time.Second, wait)
}

// TestAStormGetsAShareOfTheTime, whatever one operation takes.
func TestAStormGetsAShareOfTheTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pace{least: time.Second, share: 20}
		began := time.Unix(1e9, 0)
		at, busy, n := began, time.Duration(0), 0
		for range 1000 {
			if end, _ := p.begin(at); end != nil {
				d := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
				at = at.Add(d)
				busy += d
				n++
				end(at)
			}
			at = at.Add(time.Duration(rapid.IntRange(1, 500).Draw(t, "between")) * time.Millisecond)
		}
		all := at.Sub(began)
		require.LessOrEqual(t, n, 1+int(all/time.Second))
		require.LessOrEqual(t, busy, all/20+5*time.Second)
	})
}
