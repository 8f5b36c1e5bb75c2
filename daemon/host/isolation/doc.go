// Package isolation finds out which parts of a sandbox's isolation are available on this machine:
// which namespaces, and whether a network can be made. It tests the kernel by trying, in children
// with namespaces of their own that end at once.
//
// It decides nothing: it reports what is missing to the doctor and the daemon, which rejects
// agents for it or, if the configuration allows it, runs them with less. It owns no state and
// takes no lock.
package isolation
