package patrol

import "time"

// maxStep is how far the two clocks may get apart between two looks, and how far in the future a time of a shim may be.
const maxStep = 5 * time.Second

// stepped reports whether the wall clock was set since the last look, or the machine was suspended, in which the monotonic
// clock stands still. What the shims report is by the wall clock: it does not say then how long ago something was.
func (p *Patrol) stepped(now time.Time) bool {
	return !p.last.IsZero() && (now.Round(0).Sub(p.last.Round(0))-p.elapsed(p.last, now)).Abs() > maxStep
}
