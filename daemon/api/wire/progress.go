package wire

import "time"

// Progress is what a shim saw of the progress of its main command. A zero time is never.
type Progress struct {
	// Keys: it reads the keys of its terminal itself, as interactive programs do at their prompt.
	Keys bool `json:"keys,omitempty"`
	// Printed is how many bytes it printed, New when it last printed what was no repetition.
	Printed int64     `json:"printed,omitempty"`
	New     time.Time `json:"new,omitzero"`
	// Steps: it reports steps. Step is when it last reported one, or the end of a call, NewCall when it
	// last began a call that it had not made before.
	Steps   bool      `json:"steps,omitempty"`
	Step    time.Time `json:"step,omitzero"`
	NewCall time.Time `json:"new_call,omitzero"`
	// Begins: it reports each call of a tool when that begins, so that none is under way if Calls is 0. A shim that
	// does not know reports false.
	Begins bool `json:"begins,omitempty"`
	// Call is the last call of a tool that has not ended, Calls is how many there are.
	Call      string    `json:"call,omitempty"`
	CallSince time.Time `json:"call_since,omitzero"`
	Calls     int       `json:"calls,omitempty"`
	// Requests is how many requests to model services are open. WaitsSince is since when the agent waits
	// for an answer of its model, Heard when the last part of one came.
	Requests   int       `json:"requests,omitempty"`
	WaitsSince time.Time `json:"waits_since,omitzero"`
	Heard      time.Time `json:"heard,omitzero"`
}
