// Package cases keeps the cases of the patrol (seed 004, "Cleanup Wisp Lifecycle"): what about an
// agent stays open until a person or the facts resolve it, with its evidence.
//
// A case is found by agent, kind and incident: opening the same one again updates it. The number of
// cases, and the size of each, are bounded; the last resolved ones stay listed as a digest, without
// their evidence. Every change is saved before it counts, by the function that the caller gives.
//
// The package observes nothing and acts on nothing. A Book is safe for concurrent use; its lock is
// held while a change is saved, and not while one is published.
package cases
