package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An event means that for 20 s every measure found the limit reached again, by what cannot be
// dropped or by waits for memory; and there is one in ten minutes at most. A pause in which it did not run begins again.
func TestPressureIsReportedAfterLongAndSeldom(t *testing.T) {
	const limit = 100 << 20
	rapid.Check(t, func(t *rapid.T) {
		var p pressure
		now := time.Unix(1e9, 0)
		var began, last time.Time
		var reclaims uint64
		var stalled time.Duration
		for range rapid.IntRange(1, 400).Draw(t, "measures") {
			gap := rapid.SampledFrom([]time.Duration{pressureEvery, pressureEvery, pressureEvery, time.Hour}).Draw(t, "gap")
			now = now.Add(gap)
			if gap == time.Hour {
				began = time.Time{} // it did not run meanwhile
			}
			more := rapid.Uint64Range(0, 3).Draw(t, "more")
			need := rapid.SampledFrom([]uint64{limit / 2, limit/10*8 - 1, limit / 10 * 8, limit}).Draw(t, "need")
			reclaims += more
			stall := rapid.SampledFrom([]time.Duration{0, 0, pressureEvery/pressureShare - 1, pressureEvery / pressureShare, pressureEvery}).Draw(t, "stall")
			stalled += stall
			bytes := rapid.SampledFrom([]uint64{limit / 20 * 18, limit / 20 * 19, limit}).Draw(t, "bytes")
			if pressed := more > 0 && (need >= limit/10*8 || stall >= pressureEvery/pressureShare) && bytes >= limit/20*19; !pressed {
				began = time.Time{}
			} else if began.IsZero() {
				began = now
			}
			since, report := p.measured(now, use{reclaims, bytes, need, limit, stalled})
			require.Equal(t, began, since)
			if want := !began.IsZero() && now.Sub(began) >= pressureFor && (last.IsZero() || now.Sub(last) >= pressureAgain); want != report {
				t.Fatalf("reported %t at %v, want %t", report, now.Sub(began), want)
			}
			if report {
				last = now
			}
		}
	})
	_, report := (&pressure{}).measured(time.Now(), use{1, 1 << 40, 1 << 40, 0, time.Hour})
	require.False(t, report, "no limit")
}
