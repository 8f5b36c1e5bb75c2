package api

// Leftover is a process that an agent's command left running when it ended.
type Leftover struct {
	PID         int            `json:"pid"` // on the host
	Program     string         `json:"program"`
	Command     string         `json:"command,omitempty"`
	MemoryBytes int64          `json:"memory_bytes"`
	Ports       []LeftoverPort `json:"ports,omitempty"`
}

// LeftoverPort is a port of the agent that a Leftover listens on.
type LeftoverPort struct {
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

// CheckLeftovers checks a rule for what is left running; "" is none.
func CheckLeftovers(rule string) error {
	switch rule {
	case "", LeftoversKeep, LeftoversEnd, LeftoversAsk:
		return nil
	}
	return Errorf(CodeBadRequest, "leftovers = %q: must be %q, %q or %q", Shorten(rule, 64), LeftoversKeep, LeftoversEnd, LeftoversAsk)
}

// LeftoversDefault has an agent follow its role again.
const LeftoversDefault = "default"

// Leftovers are what is left running, and how many of them were just ended.
type Leftovers struct {
	Leftovers []Leftover `json:"leftovers"`
	Ended     int        `json:"ended"`
}

// What is done about leftovers.
const (
	LeftoversKeep = "keep"
	LeftoversEnd  = "end"
	LeftoversAsk  = "ask"
)
