// Package upper decides about the requests that an overlay file system makes of the view that is
// its upper layer.
//
// The overlay does not pass the calls of an agent on: it makes whiteouts, copies and directories in
// its work directory and moves them to their names. Guard translates such a request to what it
// means for the merged tree (a whiteout that is moved to a name removes that name), and lets the
// guard of the tree decide about that. A request that no overlay makes is refused.
//
// What is in the work directory alone is nobody's: it is not asked about, except for the room that
// a copy takes. The copy of a directory is made without a question, because it changes nothing
// that an agent sees.
//
// The package knows no rules and no leases, takes no lock, and changes no file.
package upper
