// Package filtered keeps, for agents whose rules withhold reading, the objects of
// the shared repository that those rules let be read. A Store belongs to one set of
// rules and is shared by all agents that have it; their git finds it where that of
// other agents finds the shared objects.
//
// A Store has all commits, trees and tags that branches, tags and remote refs lead to,
// and of the files in them those that the rules allow at some path where a commit
// has them. Everything else is withheld, also what has no known path. Packs
// in it are whole and marked as of a partial clone (gitformat-pack(5), .promisor), so
// that git takes a missing object for one that it could ask for.
//
// It is derived: it can be removed at any time when no agent uses it. It is built beside its place
// and renamed. A crash during Update leaves packs that the next one names again. Only root
// writes it. One operation at a time works on the stores of a Keeper; a caller
// waits for its turn no longer than its context.
//
// It never moves a ref, and never reads what an agent has not published.
package filtered
