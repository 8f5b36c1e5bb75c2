// Package patrol decides which agents have died, hang or spin (seed 004). It compares what is
// observed of each agent with what its state says, and returns findings. It observes nothing itself
// and does nothing: polis/daemon gives it the observations and acts on what it returns. It also
// decides which findings are cases for a person, and which facts end such a case.
//
// Package verdict judges whether a program that runs is stalled or spins.
//
// It keeps nothing but when an agent was last seen to do something, which finding about it was
// reported last, and its restarts. A patrol that begins again
// reaches the same conclusions, later by the times in [Limits] at most: it never concludes more
// than it has seen.
//
// It is not safe for concurrent use.
package patrol
