package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// room is how much a resting process may allocate, in bytes, before the next collection, which
	// ends the rest.
	room = 8 << 20
	// period is a little less than the interval of the runtime's forced collections. A collection
	// that comes so long after the one before was not needed.
	period = 110 * time.Second
	// percent is GOGC while the process does not rest: Go's default.
	percent = 100
)

// Collector decides when the collector of this process rests. There is at most one in a process.
type Collector struct {
	now func() time.Time

	mu      sync.Mutex
	resting bool
	last    time.Time // collection that was noticed last
}

// Watch starts to observe collections. The collector rests when the process allocates almost
// nothing.
func Watch() *Collector {
	c := &Collector{now: time.Now, last: time.Now()}
	c.mark()
	return c
}

// mark arranges that collected is called after the next collection.
func (c *Collector) mark() {
	type sentinel struct{ _ [16]byte }
	runtime.AddCleanup(&sentinel{}, func(c *Collector) { c.collected() }, c)
}

// collected is called once after each collection, by the runtime's goroutine for cleanups.
func (c *Collector) collected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch {
	case c.resting:
		c.resting = false
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	case now.Sub(c.last) >= period:
		c.rest()
	}
	c.last = now
	c.mark()
}

// Free returns unused memory to the kernel, and lets the collector rest.
func (c *Collector) Free() {
	debug.FreeOSMemory()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
}

// rest turns the collector off until the process has allocated room more: at the memory limit the
// runtime collects regardless of GOGC. c.mu is held.
func (c *Collector) rest() {
	c.resting = true
	debug.SetMemoryLimit(mapped() + room)
	debug.SetGCPercent(-1)
}

// mapped is the memory that counts for the limit: see debug.SetMemoryLimit.
func mapped() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
