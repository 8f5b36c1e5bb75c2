// Package cleanup decides what becomes of an ephemeral agent whose work has ended (seed 004,
// "Auto-Nuke Safety Protocol"): it goes if nothing of its work is only there, else it stays.
//
// It is pure: [Over] reads what the records report, [Decide] what git reports. It runs no git,
// removes nothing, and holds no state. What is not known counts as the worst: an error, a remote
// that does not answer and a commit that cannot be read keep an agent.
package cleanup
