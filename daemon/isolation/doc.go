// Package isolation finds out what of a sandbox's isolation this machine can
// give: which namespaces there are, and whether a network can be made. It asks
// the kernel by doing, in children with namespaces of their own that end at once.
//
// It decides nothing: what is missing is said to the doctor, and the daemon
// refuses agents for it or, if it was told to, gives them less. It owns no state
// and takes no lock.
package isolation
