package api

// Times are durations, counted by buckets.
type Times struct {
	// Counts has a number for each bound, and one for what exceeds all bounds. A bucket does not
	// contain the ones below.
	Counts []int64 `json:"counts"`
	// SumNanos is the sum of all durations, in nanoseconds.
	SumNanos int64 `json:"sum_ns"`
}

// AgentTimes are the durations of an agent's operations.
type AgentTimes struct {
	// Bounds are the upper bounds of the buckets, inclusive, in nanoseconds.
	Bounds []int64 `json:"bounds_ns"`
	Reads  Times   `json:"reads"`
	Writes Times   `json:"writes"`
	// LeaseWaits are the requests for leases that the agent's shim sent to polisd.
	LeaseWaits Times `json:"lease_waits"`
}
