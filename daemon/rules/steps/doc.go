// Package steps reads the machine-readable output of coding agents' programs: it turns
// their lines into what a person wants to see (what was read, edited, run, said and
// refused), and keeps what the program reports at its end: its answer, the calls that
// its own permission system refused, tokens and cost.
//
// The lines are hostile: an agent may print anything. The length of a line, of a step and
// of everything that is kept is bounded, a line that is not understood passes as text,
// and no control character passes at all.
//
// It is pure: it opens nothing, starts nothing and has no lock. The caller serialises the
// calls and gives the time.
package steps
