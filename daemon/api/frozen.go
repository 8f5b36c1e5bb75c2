package api

import "time"

// Who freezes an agent's processes.
const (
	FrozenByPatrol  = "patrol"  // for the moment in which the patrol decides; ends by itself
	FrozenByBreaker = "breaker" // a circuit breaker of its role tripped; a person ends it
	FrozenByBudget  = "budget"  // its model budget is spent; the answer to its question ends it
)

// Frozen says that the processes of an agent are frozen.
type Frozen struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	// Until is when it ends by itself; nil: a person ends it.
	Until *time.Time `json:"until,omitempty"`
	// Trip is what tripped, if a breaker did.
	Trip *Trip `json:"trip,omitempty"`
}

// Trip is what a circuit breaker saw.
type Trip struct {
	// Breaker is its key in [roles.NAME.breakers]; Count is what it counted in Seconds, Limit what
	// it allows.
	Breaker string  `json:"breaker"`
	Count   int64   `json:"count"`
	Limit   int64   `json:"limit"`
	Seconds float64 `json:"seconds"`
	// Processes and Paths are the last that were counted: "1234 rm", a path, a name or a command.
	Processes []string `json:"processes,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	// DecidedMicros is how long it took from the count that reached the limit until the kernel was
	// ordered to freeze the processes, FrozenMicros until all were frozen; -1 if some were not in time.
	DecidedMicros int64 `json:"decided_us"`
	FrozenMicros  int64 `json:"frozen_us"`
}
