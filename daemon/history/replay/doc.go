// Package replay rebuilds the state of a workspace at an entry of its receipts, from the receipts
// alone, and compares it with what can be verified: commits and the history of the target, the contents
// of snapshots, and at the newest entry the present state of polisd.
//
// It reads receipts in one pass and keeps the state, not the entries: memory is bounded by maxItems of
// each kind. It changes nothing. A broken chain is an error: a state from entries that were changed
// proves nothing.
package replay
