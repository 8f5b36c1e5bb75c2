// Package tally decides which refusals of an agent are reported, and when. It owns the counts of those that are not
// reported yet: an agent can be refused far more often than can be recorded, and none may vanish.
//
// Equal refusals become one report with a count. While refusals come faster than they may be reported, each kind of them is
// counted by itself as long as there is room; beyond that those in one directory are counted together, then those by one
// rule, then those with one code. A flood fills the room of its own directory and rule, so that a refusal of another
// kind keeps its name. Reports are made in turn: of a kind that was not reported before first.
//
// The package knows no agent and no event. Its memory is bounded, and it never drops a count.
//
// Lock order: one mutex, which is a leaf. Report is called without it.
package tally
