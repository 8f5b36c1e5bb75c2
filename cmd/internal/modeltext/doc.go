// Package modeltext writes what agents used of model services for people: in the tables of polisctl and
// on the screen of polis-tui. It starts nothing, and reads nothing.
package modeltext
