package api

import "time"

// RunRequest gives an agent a task.
type RunRequest struct {
	Prompt string `json:"prompt"`
}

// SendRequest types a text into what an agent runs; Enter follows, unless NoEnter.
type SendRequest struct {
	Text    string `json:"text"`
	NoEnter bool   `json:"no_enter,omitempty"`
}

// BroadcastRequest sends a text to every Running agent of a workspace, or of
// all of them.
type BroadcastRequest struct {
	Workspace string `json:"workspace,omitempty"`
	Text      string `json:"text"`
}

// BroadcastResult is how sending to one agent went.
type BroadcastResult struct {
	Agent string `json:"agent"`
	Error *Error `json:"error,omitempty"`
}

// BroadcastResponse has one result for each agent that was Running.
type BroadcastResponse struct {
	Results []BroadcastResult `json:"results"`
}

// How a task came to an agent that was Running already.
const (
	TaskSent      = "send"
	TaskBroadcast = "broadcast"
)

// Task is one entry of an agent's task log (property 25).
type Task struct {
	Agent   string    `json:"agent"`
	Prompt  string    `json:"prompt"`
	Command []string  `json:"command"`
	Time    time.Time `json:"time"`
	// Via is how it came to a Running agent; empty for a task of its own.
	Via string `json:"via,omitempty"`
}
