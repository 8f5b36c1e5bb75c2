// Package shared holds what the agents of one workspace have in common without
// being able to change it for one another: Paths selects the ignored names of the
// project's checkout that a view shows, Whiteouts records which of them an agent has
// removed for itself, and Store keeps the content of installed packages once.
//
// Content enters the Store as a copy that is hashed while it is made, so an
// object is what its name says, whichever view asks for it and whatever it does to the
// original meanwhile. Its inode is handed out to be linked, and the view breaks
// a link off before it changes it; nothing here ever changes an inode that has
// a name.
//
// It mounts nothing and knows no agent. Lock order: the mutexes of Paths and
// Whiteouts are leaves.
package shared
