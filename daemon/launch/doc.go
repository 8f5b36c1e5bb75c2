// Package launch starts, finds, watches and ends shims, and gives each its spec, its model services and its network.
//
// It owns the directories of the agents in the run directory, the control groups that the shims share, the limits of
// all agents together, the network namespaces and the external ports. Open finds the program of the shims and what
// this machine cannot isolate; Watch starts what watches the shims while polisd runs, and Close ends that. Shims
// outlive it: what they need after polisd has ended is in their run directory.
//
// It never decides which agents there are, what state one is in, or what it may do: package agent does, which knows
// this package as its Shims, Watcher, Resource and Ports. It serves no view and makes no sandbox: polis-shim does, also
// to remove what a dead shim left.
//
// Lock order: Observer.mu, then those that Deps.Roots takes. The locks of heartbeats and netKeeper are taken last; nothing is
// called with them.
package launch
