package api

import "time"

// StepKind is what a step of a task is.
type StepKind string

// The kinds of steps.
const (
	StepSay     StepKind = "say"     // what the agent says
	StepText    StepKind = "text"    // what its program printed besides
	StepRead    StepKind = "read"    // a file or directory
	StepEdit    StepKind = "edit"    // a file is written
	StepCommand StepKind = "command" // a program is run
	StepSearch  StepKind = "search"
	StepWeb     StepKind = "web"
	StepTool    StepKind = "tool"    // another tool of the agent
	StepFailed  StepKind = "failed"  // of a call, or of the program
	StepRefused StepKind = "refused" // by polis, or by the agent's own rules
	StepWaiting StepKind = "waiting" // for a lease of another agent
	// StepApproved is a use of a file that a person's answer to another question covers.
	StepApproved StepKind = "approved"
	StepSaid     StepKind = "said" // by a person to the agent, which got it then
)

// Step is one thing that an agent did, or ran into, while it worked on a task: as its
// program reports it, or as polis saw it.
type Step struct {
	Time time.Time `json:"time"`
	Kind StepKind  `json:"kind"`
	// Text is without control characters; of one line, but for what the agent says and prints.
	Text string `json:"text"`
	// Failed: it did not do what it was to do.
	Failed bool `json:"failed,omitempty"`
	// Passed: the call that this step began has ended without an error. Took is how many seconds it took, whether it
	// passed or not; of a program that reports a call only when it has ended, that is not known.
	Passed bool    `json:"passed,omitempty"`
	Took   float64 `json:"took_seconds,omitempty"`
}

// TaskReport is what an agent's program reports of a task in its machine-readable
// output. It is the agent's word.
type TaskReport struct {
	// Answer is the last text of the agent.
	Answer string `json:"answer,omitempty"`
	// Error is what the program says went wrong.
	Error string `json:"error,omitempty"`
	// OwnRefusals is how many calls the agent's own permission system refused;
	// OwnRefused names the first of them.
	OwnRefusals int      `json:"own_refusals,omitempty"`
	OwnRefused  []string `json:"own_refused,omitempty"`
	// Tokens and cost, where the program counts them.
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
}
