// Package tui is polisctl tui: all agents on one screen, in a terminal of 40
// by 10 cells or more.
//
// It owns the screen and nothing else: what it shows it has asked polisd for,
// what a key does is one call of the API. Events say when to look again; a slow
// clock does for what has no event (processor, memory, output). It keeps a
// bounded number of events and lines, and every call has a deadline.
//
// Model is changed by one goroutine only, that of the Bubble Tea program. Calls
// run beside it as commands, which end, and are waited for, before Run
// returns. What agents write never reaches the terminal as it is: see clean.
//
// Bubble Tea is taken in its second version since the first asks the terminal
// for its colours as soon as a program that links it starts, so with every
// verb of polisctl.
package tui
