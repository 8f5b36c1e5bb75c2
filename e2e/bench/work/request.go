package work

import "time"

// Request is one piece of work.
type Request struct {
	// Op is the name of an operation: see ops.
	Op string `json:"op"`
	// Dir is the tree to work in; Name is a path below it, for "run" where to run.
	Dir  string `json:"dir"`
	Name string `json:"name,omitempty"`
	// Argv is the program of "run"; OK are exit statuses beside 0 that are no failure.
	Argv []string `json:"argv,omitempty"`
	OK   []int    `json:"ok,omitempty"`
	// N bounds how many files or operations, Passes how often, Procs by how many processes.
	N      int `json:"n,omitempty"`
	Passes int `json:"passes,omitempty"`
	Procs  int `json:"procs,omitempty"`
	// Size is in bytes.
	Size  int64 `json:"size,omitempty"`
	Write bool  `json:"write,omitempty"`
	// Text is what "append" appends.
	Text string `json:"text,omitempty"`
}

// Reply describes what a Request took.
type Reply struct {
	Wall time.Duration `json:"wall"`
	// CPU is user and system time of the worker and the programs it ran.
	CPU time.Duration `json:"cpu"`
	// Ops is how many operations were done, where they are counted.
	Ops int `json:"ops,omitempty"`
	// Text is what "where" answers.
	Text string `json:"text,omitempty"`
	Err  string `json:"err,omitempty"`
}
