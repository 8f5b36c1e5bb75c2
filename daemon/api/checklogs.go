package api

import "time"

// Bounds of the end of a check's output that is shown without a request for it.
const (
	CheckTailLines = 20
	CheckTailBytes = 4 << 10
)

// MaxCheckText bounds the text of a CheckLog, in bytes. MaxCheckLines bounds the lines that a caller wants of it.
const (
	MaxCheckText  = 256 << 10
	MaxCheckLines = 10000
)

// CheckLog is one check of an agent's branch, and the end of what it printed.
type CheckLog struct {
	Workspace string `json:"workspace"`
	Agent     string `json:"agent"`
	// Check is its number: 1 is the agent's last check, 2 the one before. Checks is how many are recorded.
	Check  int `json:"check"`
	Checks int `json:"checks"`
	// ID is that of the request to merge, and At is when that ended.
	ID string     `json:"id"`
	At *time.Time `json:"at,omitempty"`
	// Code and Message are why the branch was not merged; empty if it was.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Command is the check command as it was then, cut to 500 bytes.
	Command string `json:"command,omitempty"`
	// Log is the file with the whole output, and Bytes its size.
	Log   string `json:"log"`
	Bytes int64  `json:"bytes"`
	// Text is the end of the output, as valid UTF-8. Truncated: there is more before it.
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}

// CheckLogRequest selects a check of an agent.
type CheckLogRequest struct {
	Agent string
	// Workspace is needed for an agent that was removed, if several workspaces have checks of that name.
	Workspace string
	// Check is its number, from 1; ID is the request to merge, instead of the number. With neither, it is the last one.
	Check int
	ID    string
	// Lines is how many of the last lines Text has; 0: as many as it may have.
	Lines int
}
