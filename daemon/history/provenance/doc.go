// Package provenance describes merges in a standard form: an in-toto Statement v1 with a SLSA provenance v1
// predicate, which says who made the merge, from what and how. It knows only receipts (package receipt) and
// the commits that they name, so that the text of a merge is the same bytes each time.
//
// What no receipt has is named in "notRecorded", never guessed. The package signs nothing.
package provenance
