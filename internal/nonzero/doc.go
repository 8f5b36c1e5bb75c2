// Package nonzero makes values of which no field is zero, for tests that every field of a type arrives
// somewhere: also one that is added later. Only tests use it.
package nonzero
