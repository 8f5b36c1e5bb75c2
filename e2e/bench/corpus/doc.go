// Package corpus makes the repository the benchmark works on: the sources of
// the Go installation at hand, with history, packed and loose objects, a branch that
// differs in a known number of files, and a small module that builds without a
// network. The same Go makes the same commits. It never reaches outside of the
// directory it is given, except to read the sources.
package corpus
