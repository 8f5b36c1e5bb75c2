// Package changed owns the set of paths of a view that may have changed since a cut: a moment at
// which the caller reads the set. A path is in the set before it is changed, and a change that a cut
// interrupted is in the next set as well, so a set can have too much and never too little.
//
// The set is in memory and ends with its process. Each set has a random name, so a caller that
// names an earlier one, or a cut that the set does not know, gets no paths and the reason: it has to
// read the whole tree. It is bounded: with too many paths the set is lost for the next cut, which has
// the reason.
//
// The package knows no file system, reads no file and takes no lock but its own.
package changed
