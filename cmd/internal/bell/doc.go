// Package bell makes a terminal draw attention: its bell, and a desktop notification where the
// terminal is known to make one of an escape sequence.
//
// It owns the sequences. It never writes them: the caller has the terminal. The text must be the
// caller's own, not an agent's.
package bell
