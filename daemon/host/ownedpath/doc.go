// Package ownedpath opens files that no user other than root, or the caller's own, could have replaced: each
// directory of the path, each symbolic link in it, and the file belong to one of them, and others may not write
// them. It checks descriptors that it has opened one below the other, so nothing can change between the check and
// the use. It never follows a magic link of /proc, and reads at most the first line of a script.
package ownedpath
