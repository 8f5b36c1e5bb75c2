// Package breaker counts what an agent does against the limits of its role, and reports when a
// limit is exceeded. The shim connects it to the view, the network and the control group, and acts
// on the report.
//
// A breaker without a limit costs one atomic load. A trip is reported once. After it nothing is
// counted until Reset. The memory is bounded by the limits and by [maxKept].
//
// A Set is safe for concurrent use. Its lock is not held while a trip is reported.
package breaker
