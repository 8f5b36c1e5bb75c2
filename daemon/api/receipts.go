package api

import (
	"encoding/json"
	"time"
)

// Receipt is one entry of the receipts of a workspace.
type Receipt struct {
	// Log is the log that has the entry: the name of an agent, or "" for that of the workspace.
	Log  string    `json:"log,omitempty"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Type is that of an event, or begins with "receipts:".
	Type    string `json:"type"`
	Agent   string `json:"agent,omitempty"`
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message"`
	// Count is how many equal events the entry stands for, if there were several.
	Count int             `json:"count,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	// Prev is the hash of the entry before in the same log; Hash is the SHA-256 of Prev, a newline
	// and the stored text.
	Prev string `json:"prev"`
	Hash string `json:"hash"`
	// Text is the stored text; only exports have it.
	Text string `json:"text,omitempty"`
}

// Types of receipts that are not events.
const (
	// polisd opened the log; data: clean (the last polisd ended in order), since (when it began to
	// record), and cut, the bytes of an
	// incomplete entry that a crash left.
	ReceiptOpened = "receipts:opened"
	// polisd ended in order.
	ReceiptClosed = "receipts:closed"
	// The oldest entries were removed; data: log, through and hash, of the last one that was removed.
	ReceiptDropped = "receipts:dropped"
	// Entries are missing here; count is how many.
	ReceiptMissed = "receipts:missed"
	// An entry before this one does not match its hash; data: file.
	ReceiptBroken = "receipts:broken"
	// The last entries of the logs of agents; data: heads.
	ReceiptHeads = "receipts:heads"
	// An agent opened or changed files; data: opens ([]Open), of an agent with audit = "full".
	ReceiptOpens = "receipts:opens"
	// An agent was granted leases, or leases of it ended; data: leases ([]LeaseChange), and missed, the
	// number of changes for which there was no room.
	ReceiptLeases = "receipts:leases"
	// A checkpoint of an agent was made; data: snapshot, why, list and delta (the hashes of what its files are stored by:
	// they name its state), task and for if it was made before one, commit, and hash and metadata_hash unless the tree is very large.
	ReceiptCheckpoint = "receipts:checkpoint"
)

// Open is one open, or change, of a file by a process of an agent: what a program read or wrote
// of the file afterwards is not seen.
type Open struct {
	Time time.Time `json:"time"`
	// Op is the operation: "open", "open-write", "create", "rename", ...
	Op    string `json:"op"`
	Write bool   `json:"write,omitempty"`
	// Path is relative to the worktree, To the new name of a rename; for a link, Path is the new name
	// and To another one of the file. See EncodePath.
	Path string `json:"path"`
	To   string `json:"to,omitempty"`
	// Dir: it is a directory; Tree: everything below it was moved with it.
	Dir  bool `json:"dir,omitempty"`
	Tree bool `json:"tree,omitempty"`
	// PID is the process on the host, Program its executable, Command its command line, shortened.
	PID     uint32 `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Command string `json:"command,omitempty"`
	// Task is the agent's task at that time.
	Task string `json:"task,omitempty"`
	// Count is how many equal opens this one stands for, if there were several; Last is the time of
	// the last of them.
	Count int        `json:"count,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
}

// ReceiptsRequest selects receipts. All fields may be empty.
type ReceiptsRequest struct {
	Workspace string
	Agent     string
	// Type is a type, or the beginning of one that ends in ":".
	Type string
	// Since is the earliest time.
	Since time.Time
	// Limit bounds how many there are: the last ones; 0 is 1000.
	Limit int
}

// Receipts are entries of the receipts of a workspace, oldest first.
type Receipts struct {
	Workspace string    `json:"workspace"`
	Receipts  []Receipt `json:"receipts"`
	// More is true if earlier ones were left out because of the limit.
	More bool `json:"more,omitempty"`
	// Broken is the first entry that does not match its hash; nil if all do.
	Broken *BrokenReceipt `json:"broken,omitempty"`
}

// ReceiptsCheck is the result of a verification of the receipts of a workspace.
type ReceiptsCheck struct {
	Workspace string     `json:"workspace"`
	Intact    bool       `json:"intact"`
	Entries   int        `json:"entries"`
	Logs      []LogCheck `json:"logs"`
	// Broken is the first entry that is not as it was written; nil if all are.
	Broken *BrokenReceipt `json:"broken,omitempty"`
	// Fault is why receipts cannot be written now; "" if they can.
	Fault string `json:"fault,omitempty"`
}

// LogCheck is the result of a verification of one log.
type LogCheck struct {
	// Log is the name of an agent, or "" for the log of the workspace.
	Log     string `json:"log"`
	Entries int    `json:"entries"`
	// First and Last are the numbers of the oldest and the newest entry that is there.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Head is the hash of the newest entry. That of the workspace's log proves later that no entry
	// before it has changed.
	Head   string         `json:"head"`
	Broken *BrokenReceipt `json:"broken,omitempty"`
}

// BrokenReceipt is an entry that is not as it was written.
type BrokenReceipt struct {
	Log  string `json:"log,omitempty"`
	Seq  uint64 `json:"seq,omitempty"`
	File string `json:"file,omitempty"`
	Why  string `json:"why"`
}

// LeaseChange is a lease that an agent was granted, or that ended.
type LeaseChange struct {
	Time time.Time `json:"time"`
	// Path is relative to the worktree; see EncodePath.
	Path string `json:"path"`
	// Explicit: it was requested by name; else it came with a write. Tree: of the directory and
	// everything below it.
	Explicit bool `json:"explicit,omitempty"`
	Tree     bool `json:"tree,omitempty"`
	// Granted: it was granted since the entry before. Held: the agent has it now. If neither is true,
	// it was granted earlier, and ended.
	Granted bool `json:"granted"`
	Held    bool `json:"held"`
	// Op and PID are those of the call that got it.
	Op  string `json:"op,omitempty"`
	PID uint32 `json:"pid,omitempty"`
}
