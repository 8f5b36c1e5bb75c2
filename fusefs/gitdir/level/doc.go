// Package level says how much of a repository an operation of git keeps to
// itself, and how long it waits for others. It is words and two durations, for
// all who take such locks; it takes none.
package level
