package api

import "time"

// WhyEntry explains one refusal in words.
type WhyEntry struct {
	Time   time.Time  `json:"time"`
	Op     string     `json:"op"`
	Path   string     `json:"path"` // see EncodePath
	Code   Code       `json:"code"`
	Errno  string     `json:"errno"`
	Holder string     `json:"holder,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Hint   string     `json:"hint"`
	Count  int        `json:"count,omitempty"`
	// First is when the first of Count refusals was.
	First *time.Time `json:"first,omitempty"`
	// Pid, on the host, and Program are who was refused, where it is known.
	Pid     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	// Probe: many programs try it at every start, and do without.
	Probe bool `json:"probe,omitempty"`
}
