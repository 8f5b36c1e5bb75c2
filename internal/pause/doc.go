// Package pause has waits that end with their context, and the pause of a worker between two pieces
// of work. It keeps no state.
package pause
