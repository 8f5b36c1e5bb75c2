// Package level defines how much of a repository a git operation locks, and how long it waits for
// other holders. It contains names and two durations, and takes no lock.
package level
