package api

import "time"

// Sources of a WhoUse.
const (
	// UseOpen is a receipt of an open or change, of an agent with audit = "full".
	UseOpen = "open"
	// UseCommit is a commit that changed the file.
	UseCommit = "commit"
	// UseCheckpoint is a content that a checkpoint has: it was written before the checkpoint, and after the one before.
	UseCheckpoint = "checkpoint"
	// UseFiles: the file of an agent differs now from its last commit.
	UseFiles = "files"
)

// WhoUse is one time that a file was read or written.
type WhoUse struct {
	// Source is where it is known from: UseOpen, UseCommit, UseCheckpoint or UseFiles.
	Source string `json:"source"`
	// Agent is empty for a commit of no agent that polis knows.
	Agent string `json:"agent,omitempty"`
	// Open has the process for UseOpen; for the others only time, path and task.
	Open
	// Commit is the commit of UseCommit.
	Commit *BlameCommit `json:"commit,omitempty"`
	// Checkpoint is that of UseCheckpoint.
	Checkpoint *WhoCheckpoint `json:"checkpoint,omitempty"`
}

// WhoCheckpoint is a checkpoint with a content of a file.
type WhoCheckpoint struct {
	ID string `json:"id"`
	// After is when the checkpoint before was made, which has another content; nil if there is none.
	After *time.Time `json:"after,omitempty"`
	// Hash is the SHA-256 of the content; "" if the file was removed.
	Hash string `json:"hash,omitempty"`
}

// WhoRequest asks who read or wrote a path.
type WhoRequest struct {
	Workspace string
	// Agent restricts the answer to one agent; with Line, the line is that of its file now.
	Agent string
	Path  string
	// Line of the file, from 1; 0 for the whole file.
	Line int
	// Checkpoint, if set, is one whose file has the line; else it is the file now.
	Checkpoint string
	// Write asks who wrote it, else who read it.
	Write bool
	// Since is the earliest time.
	Since time.Time
	// Limit bounds the answer: the last ones; 0 is 1000.
	Limit int
}

// Who is the answer to a WhoRequest, oldest first.
type Who struct {
	Workspace string   `json:"workspace"`
	Path      string   `json:"path"`
	Uses      []WhoUse `json:"uses"`
	// More is true if earlier ones were left out because of the limit.
	More bool `json:"more,omitempty"`
	// Line is the line that was asked for.
	Line *BlameLine `json:"line,omitempty"`
	// Notes are what the answer cannot contain.
	Notes []string `json:"notes,omitempty"`
}

// Blame is which commit, agent and task each line of a file is of.
type Blame struct {
	Workspace string `json:"workspace"`
	// Agent is whose file it is; empty for that of the target branch.
	Agent string `json:"agent,omitempty"`
	Path  string `json:"path"`
	// Head is the commit that the file is compared with.
	Head    string                 `json:"head"`
	Lines   []BlameLine            `json:"lines"`
	Commits map[string]BlameCommit `json:"commits"`
}

// BlameLine is a line of a file.
type BlameLine struct {
	Line int `json:"line"`
	// Commit is empty for a line that is in no commit.
	Commit string `json:"commit,omitempty"`
	// Text is shortened to 1000 bytes, and bytes that are not UTF-8 are replaced.
	Text string `json:"text"`
}

// BlameCommit is a commit with the agent that made it.
type BlameCommit struct {
	ID      string    `json:"id"`
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Summary string    `json:"summary,omitempty"`
	// Agent is empty if polis knows none: a person made it, or its receipt is gone. Tasks are those
	// that it can be of.
	Agent string   `json:"agent,omitempty"`
	Tasks []string `json:"tasks,omitempty"`
	// Merge is the commit that brought it to the target branch.
	Merge string `json:"merge,omitempty"`
}
