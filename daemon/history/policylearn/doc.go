// Package policylearn derives a role from what an agent did. Set collects the paths that were opened and
// changed, in bounded memory. Learn returns read and write rules that allow all of it, and Check what a
// role would have refused of it.
//
// What Learn returns is minimal in this sense:
//
//   - Every rule is needed: without it, the role refuses something that was recorded.
//   - A rule is the exact path of something that was recorded, or "dir/**" for a directory in which at
//     least Options.Spread different names were used (8 by default). Spread becomes smaller only while
//     there are more than Options.MaxRules rules. If that is not enough, all paths that are deeper than some
//     depth become "dir/**"; the depth is the largest that is enough.
//   - A path that the rules in force withhold (deny, ask, hide) is in no rule, and the role has these
//     rules too: it never allows what they withhold.
//
// A temporary name of an editor stands for the file that it is renamed to, as everywhere in polis.
//
// The package is pure: it opens nothing, knows no agent, and holds no lock. A Set belongs to one
// goroutine at a time.
package policylearn
