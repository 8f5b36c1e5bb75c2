package api

// Works is whether something of a project or its machine works with agents.
type Works string

// What a finding can be.
const (
	WorksOK     Works = "ok"
	WorksPartly Works = "partly" // agents can be used, and differ in this
	WorksNo     Works = "no"
)

// The areas of findings.
const (
	AreaGit     = "git"
	AreaFiles   = "files"
	AreaMachine = "machine"
)

// Finding is a row of what polisctl init found in a project and its machine.
type Finding struct {
	Area  string `json:"area"`
	Name  string `json:"name"`
	Found string `json:"found"`
	Works Works  `json:"works"`
	// Cost is what it means for agents.
	Cost string `json:"cost,omitempty"`
	// Fix is what to do, in words, with what must be considered first. Command is the one shell command of it, as a person can
	// paste it. If none can do it, NoCommand has the reason.
	Fix       string `json:"fix,omitempty"`
	Command   string `json:"command,omitempty"`
	NoCommand string `json:"no_command,omitempty"`
}

// ProjectReport is all that was found about a project, in a fixed order.
type ProjectReport struct {
	Checks []Finding `json:"checks"`
}

// Notice is a finding as one sentence, "" if all works.
func (f Finding) Notice() string {
	if f.Works == WorksOK {
		return ""
	}
	text := f.Name + ": " + f.Found
	if f.Cost != "" {
		text += "; " + f.Cost
	}
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	if f.Command != "" {
		text += ": " + f.Command
	}
	return text
}

// Finding is a check of doctor as a row.
func (c Check) Finding() Finding {
	works := map[CheckState]Works{CheckOK: WorksOK, CheckWarn: WorksPartly}[c.State]
	if works == "" {
		works = WorksNo
	}
	return Finding{Area: AreaMachine, Name: c.Name, Found: c.Found, Works: works, Cost: c.Cost, Fix: c.Fix, Command: c.Command, NoCommand: c.NoCommand}
}
