package api

// CheckState is the outcome of one check of polisctl doctor.
type CheckState string

// The outcomes. A warning costs something and the machine is usable; a
// failure is in the way of agents.
const (
	CheckOK   CheckState = "ok"
	CheckWarn CheckState = "warning"
	CheckFail CheckState = "failure"
)

// Check is what doctor found about one thing the machine needs.
type Check struct {
	Name string `json:"name"`
	// FormerName is the name that the check had in earlier releases, if it had another.
	FormerName string     `json:"former_name,omitempty"`
	State      CheckState `json:"state"`
	// Found is what there is.
	Found string `json:"found"`
	// Cost is what its lack means for agents, and Fix what to do; both are
	// empty when nothing is wrong.
	Cost string `json:"cost,omitempty"`
	Fix  string `json:"fix,omitempty"`
	// Command is the shell command of Fix, as a person can paste it. If none can do it, NoCommand has the reason.
	Command   string `json:"command,omitempty"`
	NoCommand string `json:"no_command,omitempty"`
	// Code is what fails with this when agents are added, if something does.
	Code Code `json:"code,omitempty"`
}

// Loss is a part of the isolation that the machine cannot give to agents.
type Loss struct {
	// Capability is "mount", "pid", "network", "ipc", "uts" or "cgroup".
	Capability string `json:"capability"`
	Code       Code   `json:"code"`
	Found      string `json:"found"`
	Cost       string `json:"cost"` // what agents can do for lack of it
}

// DoctorReport is all that doctor found, in a fixed order.
type DoctorReport struct {
	Checks []Check `json:"checks"`
}

// Worst is the worst outcome of the report.
func (r DoctorReport) Worst() CheckState {
	worst := CheckOK
	for _, c := range r.Checks {
		switch c.State {
		case CheckFail:
			return CheckFail
		case CheckWarn:
			worst = CheckWarn
		case CheckOK:
		}
	}
	return worst
}
