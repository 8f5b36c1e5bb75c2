// Package heap stops Go's garbage collector while a shim does nothing. The runtime collects every
// two minutes even if nothing was allocated (runtime/proc.go, forcegcperiod). That would be half of
// the cost of an idle agent. The package uses only the runtime, and has no notion of an agent.
package heap
