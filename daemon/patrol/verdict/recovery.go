package verdict

import "time"

// ReopenTime is for how long the case of an agent that recovered is opened again if the agent is found again.
const ReopenTime = time.Hour

const (
	// sustained is the part of a limit over which the progress that closes a case must be spread.
	sustained = 3
	// marks is how many separate moments of progress close a case.
	marks = 3
)

// Recovery sees whether an agent that was found makes progress again. One moment of it is not enough:
// an agent that does something every now and then would be found over and over. The zero value has seen
// nothing.
type Recovery struct {
	first, last time.Time
	n           int
}

// Found records that the agent is found now, and made progress last at a time: what it did until then does not count.
func (r *Recovery) Found(at time.Time) { *r = Recovery{last: at} }

// Progress records that the agent last made progress at a time. limit is after which time without any it is found.
func (r *Recovery) Progress(at time.Time, limit time.Duration) {
	apart := limit / (2 * sustained * (marks - 1))
	switch {
	case at.IsZero() || !at.After(r.last):
		return
	case r.n == 0:
		r.first = at
	case at.Sub(r.last) < apart:
		return // of the same moment
	}
	r.last = at
	r.n++
}

// Over reports whether the progress is sustained: it came at several moments, which are spread over a third
// of limit. Without a limit there is nothing to recover from.
func (r *Recovery) Over(limit time.Duration) bool {
	return limit > 0 && r.n >= marks && r.last.Sub(r.first) >= limit/sustained
}
