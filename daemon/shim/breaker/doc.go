// Package breaker counts what an agent does against the limits of its role, and reports when one is
// passed. The shim joins it to the view, the network and the control group; what happens then is the
// shim's.
//
// A breaker without a limit costs one atomic load. A trip is reported once; the breakers count
// nothing more until Reset. What is kept is bounded by the limits and by [maxKept].
//
// A Set is safe for concurrent use. Its lock is not held while a trip is reported.
package breaker
