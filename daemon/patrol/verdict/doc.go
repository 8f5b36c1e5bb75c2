// Package verdict decides from facts with times whether an agent is stalled, spins, waits or works. It is
// pure: it reads no clock and keeps nothing but what [Recovery] has of an open case. The times are those of
// the events, so that the verdict does not depend on the times of the cycles.
package verdict
