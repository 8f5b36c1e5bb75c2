// Package doctor finds out what this machine can do for polis: what is
// missing, what that costs, and how to mend it.
//
// It asks the kernel by doing, not by reading version numbers: a view is
// mounted, namespaces are made, a ruleset is loaded. All that happens in a
// child process with namespaces of its own, which takes what it made with it
// when it ends, whatever happens. Nothing on the machine is changed.
//
// It owns no state and takes no lock.
package doctor
