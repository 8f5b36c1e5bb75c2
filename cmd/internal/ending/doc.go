// Package ending ends a program that a signal has asked to end, and that does not: what is blocked in a write
// to a terminal or a pipe that nobody reads ends with no context. Only the programs of people use it.
package ending
