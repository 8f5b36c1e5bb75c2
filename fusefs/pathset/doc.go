// Package pathset is a compact set of paths in a file: the sorted 64-bit hashes of
// the paths and, marked, of the directories above them. polisd writes one, shims
// read it.
//
// It answers too much rather than too little: two paths may have one hash, and then
// one that is not in the set counts as if it were. It never misses one.
//
// It opens nothing by itself and knows no agent. A Set is immutable; no locks.
package pathset
