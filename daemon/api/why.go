package api

import (
	"cmp"
	"time"
)

// WhyEntry explains one refusal in words.
type WhyEntry struct {
	Time time.Time `json:"time"`
	Op   string    `json:"op"`
	Path string    `json:"path"` // see EncodePath
	Code Code      `json:"code"`
	// Shown is the name of the refusal for people, if it is not Code: DENIED_READ or DENIED_WRITE if a rule denies the
	// path. Code is then also that of a path which no rule permits.
	Shown string `json:"shown,omitempty"`
	// Rule is the rule that refused, such as `deny "secrets/**"`, or what else decided.
	Rule   string     `json:"rule,omitempty"`
	Errno  string     `json:"errno"`
	Holder string     `json:"holder,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Hint   string     `json:"hint"`
	// By denied it, if the call asked: the person's name, or the rule's list. Reason is what the answer said.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Count  int    `json:"count,omitempty"`
	// First is when the first of Count refusals was.
	First *time.Time `json:"first,omitempty"`
	// Pid, on the host, and Program are who was refused, where it is known.
	Pid     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	// Probe: many programs try it at every start, and do without.
	Probe bool `json:"probe,omitempty"`
}

// Refusals are what an agent was refused, and its state.
type Refusals struct {
	Why          []WhyEntry `json:"why"` // the newest first
	Status       Status     `json:"status"`
	StatusReason string     `json:"status_reason,omitempty"`
	// StatusSince is when it came into that state; missing if that was before polisd recorded it.
	StatusSince *time.Time `json:"status_since,omitempty"`
	// Recorded: its shim does not run, and Why is what polisd has recorded of what it was refused.
	Recorded bool `json:"recorded,omitempty"`
	// DamagedFrom is the number of the first receipt that does not match its hash, if Recorded: what was refused from
	// then on is not in Why.
	DamagedFrom uint64 `json:"damaged_from,omitempty"`
}

// Name is Shown, or Code.
func (w WhyEntry) Name() string { return cmp.Or(w.Shown, string(w.Code)) }

// DeniedText is a denial in one sentence: "ann denied bash make deploy: not today".
func DeniedText(by, what, reason string) string {
	text := by + " denied " + what
	if reason != "" {
		text += ": " + reason
	}
	return text
}
