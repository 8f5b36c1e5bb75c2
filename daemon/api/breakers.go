package api

// Breakers are circuit breakers of an agent: above a limit its processes are frozen. 0 is off.
type Breakers struct {
	// Denials by its rules, in any minute.
	Denials int64 `json:"denials,omitempty"`
	// Deletions of different files that git tracks, in any minute.
	Deletions int64 `json:"deletions,omitempty"`
	// WrittenMB its processes wrote to disks, in any minute, in MB.
	WrittenMB int64 `json:"written_mb,omitempty"`
	// Names that it resolved for the first time, in any minute.
	Names int64 `json:"names,omitempty"`
	// Repeats of one command, in a row.
	Repeats int64 `json:"repeats,omitempty"`
}

// The names of the breakers.
const (
	BreakerDenials   = "denials"
	BreakerDeletions = "deletions"
	BreakerWritten   = "written_mb"
	BreakerNames     = "names"
	BreakerRepeats   = "repeats"
)
