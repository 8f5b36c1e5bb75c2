package api

import "time"

// PolicyRequest chooses what an agent used. All fields but Agent may be empty.
type PolicyRequest struct {
	Agent     string
	Workspace string
	// Role is the name of the role: of the new one for learn, of one of the configuration for check.
	Role string
	// Run is the number of a run, -1 for the newest; 0 for all runs of the agent.
	Run int
}

// RecordedRun is one life of an agent in record mode, from a start to a stop.
type RecordedRun struct {
	Run   int       `json:"run"`
	Began time.Time `json:"began"`
	Role  string    `json:"role,omitempty"`
	// Paths and Names are how many of each are recorded.
	Paths int `json:"paths"`
	Names int `json:"names"`
	// Recording: it has not ended.
	Recording bool `json:"recording,omitempty"`
	// Joined is how many runs this one stands for, if several older ones were joined.
	Joined int `json:"joined,omitempty"`
	// Cut is how many bytes of entries were removed that polisd had not completed when it ended. What they
	// described is recorded again, unless the run is incomplete.
	Cut int64 `json:"cut,omitempty"`
}

// LearnedPolicy is a role that allows what an agent used.
type LearnedPolicy struct {
	Agent     string        `json:"agent"`
	Workspace string        `json:"workspace"`
	Role      string        `json:"role"`
	Runs      []RecordedRun `json:"runs"`
	Policy    Policy        `json:"policy"`
	// Egress is left out if names were not seen, or there are more than a list can have.
	Egress []string `json:"egress,omitempty"`
	// Withheld is what was used or wanted, and the role does not allow.
	Withheld []PolicyRefusal `json:"withheld"`
	// Incomplete are the reasons why the record lacks something; none if it is complete.
	Incomplete []string `json:"incomplete"`
	// TOML is the role as text for polisd.toml.
	TOML string `json:"toml"`
}

// PolicyRefusal is something that an agent used and that a role does not allow.
type PolicyRefusal struct {
	// Path is relative to the repository (EncodePath); or Name was resolved.
	Path  string `json:"path,omitempty"`
	Name  string `json:"name,omitempty"`
	Write bool   `json:"write,omitempty"`
	// Dir: it is a directory; Tree: the directory and all below it.
	Dir  bool `json:"dir,omitempty"`
	Tree bool `json:"tree,omitempty"`
	// Verdict is "deny", "ask" or "hide", Rule the rule that decides; "" if no rule names it.
	Verdict string `json:"verdict"`
	Rule    string `json:"rule,omitempty"`
	// Refused: the agent did not get it at that time either.
	Refused bool `json:"refused,omitempty"`
}

// PolicyCheck is what a role would have refused of what an agent used.
type PolicyCheck struct {
	Role       string          `json:"role"`
	Agent      string          `json:"agent"`
	Workspace  string          `json:"workspace"`
	Runs       []RecordedRun   `json:"runs"`
	Refused    []PolicyRefusal `json:"refused"`
	Incomplete []string        `json:"incomplete"`
}

// Recorded returns the rules that apply while what the agent uses is recorded: without the lists read
// and write.
func (p Policy) Recorded() Policy {
	p.Read, p.Write = nil, nil
	return p
}
