package shim

import "time"

// beatEvery is the interval of heartbeats: empty lines of the stream of events. Each wakes the
// shim and polisd, which costs both together about 0.1 ms of a processor.
const beatEvery = 15 * time.Second

// beat returns while the shim works. A shim that holds the locks of requests for ever sends no
// heartbeat.
func (s *Shim) beat() {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // only to have held it
	s.views.mu.Lock()
	s.views.mu.Unlock() //nolint:staticcheck // as above
	s.events.Last()
	s.followShared()
	s.sockets.Check()
}
