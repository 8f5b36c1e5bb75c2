// Package cleanup decides whether to remove an ephemeral agent whose work has ended (seed 004,
// "Auto-Nuke Safety Protocol"): it goes if nothing of its work is only there, else it stays.
//
// [Over] reads what the records report, [Decide] what git reports. [Rounds] decides when an agent
// that stays is measured again and which decisions are new; [Measure] decides what is measured, and
// in which order. What is not known counts as the worst: an error, a remote that does not answer
// and a commit that cannot be read keep an agent.
//
// It runs no git and removes nothing itself. It keeps the last decisions in memory only: after a
// restart each agent is measured again.
package cleanup
