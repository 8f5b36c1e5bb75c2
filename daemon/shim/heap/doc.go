// Package heap lets Go's garbage collector rest while a shim does nothing. The runtime collects
// every two minutes even if nothing was allocated (runtime/proc.go, forcegcperiod), which would be
// half of what an idle agent costs. The package knows the runtime and no agent.
package heap
