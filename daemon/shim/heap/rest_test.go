package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// setting returns the current GOGC.
func setting() (percent int, limit int64) {
	percent = debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent, debug.SetMemoryLimit(-1)
}

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, time.Millisecond, what)
}

func awake() bool {
	p, l := setting()
	return p == 100 && l == math.MaxInt64
}

var sink []byte

// TestTheCollectorRestsUntilSomethingIsAllocated has one test only, because the setting applies to
// the process.
func TestTheCollectorRestsUntilSomethingIsAllocated(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100); debug.SetMemoryLimit(math.MaxInt64) })
	c := Watch()
	var ahead atomic.Int64
	c.mu.Lock()
	c.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c.mu.Unlock()
	seen := func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last
	}

	before := seen()
	runtime.GC()
	eventually(t, "a collection is noticed", func() bool { return seen() != before })
	require.True(t, awake(), "one that was needed does not let it rest")

	ahead.Store(int64(2 * time.Minute))
	runtime.GC()
	eventually(t, "one after a long time lets it rest", func() bool { p, l := setting(); return p == -1 && l < math.MaxInt64 })

	rested := collections()
	sink = make([]byte, 1<<20)
	require.Equal(t, rested, collections(), "a little more memory does not end it")
	eventually(t, "what is allocated ends it", func() bool { sink = make([]byte, 1<<20); return awake() })
	require.Greater(t, collections(), rested)

	_, free := setting()
	require.EqualValues(t, math.MaxInt64, free)
	c.Free()
	eventually(t, "what is allocated ends it again", func() bool { sink = make([]byte, 1<<20); return awake() })
}
