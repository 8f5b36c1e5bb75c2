package work

import "time"

// Request is one piece of work.
type Request struct {
	// Op is the name of an operation: see ops.
	Op string `json:"op"`
	// Dir is the tree to work in. Name is a path below it; for "run", the working directory.
	Dir  string `json:"dir"`
	Name string `json:"name,omitempty"`
	// Argv is the command line of "run". OK are the exit statuses besides 0 that are no failure.
	Argv []string `json:"argv,omitempty"`
	OK   []int    `json:"ok,omitempty"`
	// N is the number of files or operations, Passes the number of repetitions, Procs the number of
	// processes.
	N      int `json:"n,omitempty"`
	Passes int `json:"passes,omitempty"`
	// Skip chooses other files of the tree, for work that is to find files that nothing has changed yet.
	Skip  int `json:"skip,omitempty"`
	Procs int `json:"procs,omitempty"`
	// Size is in bytes.
	Size  int64 `json:"size,omitempty"`
	Write bool  `json:"write,omitempty"`
	// Text is what "append" appends.
	Text string `json:"text,omitempty"`
}

// Reply is the result of a Request.
type Reply struct {
	Wall time.Duration `json:"wall"`
	// CPU is user and system time of the worker and of the programs that it ran.
	CPU time.Duration `json:"cpu"`
	// Ops is the number of operations, for an Op that counts them.
	Ops int `json:"ops,omitempty"`
	// Text is the result of "where": the working directory.
	Text string `json:"text,omitempty"`
	Err  string `json:"err,omitempty"`
}
