package api

import "time"

// What a snapshot covers.
const (
	// SnapshotFiles is every file that git does not ignore.
	SnapshotFiles = "files"
	// SnapshotAll is every file, also those that git ignores.
	SnapshotAll = "all"
	// SnapshotDeclared is what the agent's rules let it write: the declared output of seed 002.
	SnapshotDeclared = "declared"
)

// Why a snapshot was made.
const (
	SnapshotByUser    = "user"
	SnapshotByRestore = "restore" // before a restore or rewind, so that it can be undone
	SnapshotByTask    = "task"    // before a task
	SnapshotByMerge   = "merge"   // before a merge of the agent's branch
	SnapshotByRebase  = "rebase"  // before the target is merged into the agent's branch
	SnapshotByTime    = "time"    // after a time in which something changed
	SnapshotByTool    = "tool"    // before a call of a tool
	SnapshotByRequest = "request" // a checkpoint that a user asked for
	SnapshotByAgent   = "agent"   // a checkpoint that the agent asked for
)

// SnapshotRequest makes a snapshot of an agent's files.
type SnapshotRequest struct {
	// Covers is SnapshotFiles ("" too), SnapshotAll or SnapshotDeclared.
	Covers string `json:"covers,omitempty"`
	// Note is a text for people, at most 500 bytes.
	Note string `json:"note,omitempty"`
}

// Snapshot is the state of an agent's files at one moment.
type Snapshot struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Agent     string    `json:"agent"`
	Time      time.Time `json:"time"`
	// Why is SnapshotByUser for a snapshot; else it is a checkpoint, which is removed with time.
	Why string `json:"why"`
	// Task is the number of the task before which it was made, with SnapshotByTask.
	Task int `json:"task,omitempty"`
	// For is the number of the merge before which it was made, with SnapshotByMerge, and the name of the
	// tool, with SnapshotByTool.
	For string `json:"for,omitempty"`
	// ByAgent is true if the agent asked for it, or for the rewind before which it was made.
	ByAgent bool   `json:"by_agent,omitempty"`
	Note    string `json:"note,omitempty"`
	Covers  string `json:"covers"`
	// Hash is the content hash: SHA-256 of the lines "path:sha256" of all regular files. Metadata is
	// the hash of modes, links, directories and extended attributes. Of a checkpoint both, and the totals,
	// are computed when it alone is read.
	Hash     string `json:"hash"`
	Metadata string `json:"metadata_hash"`
	// Manifest is the SHA-256 of the list of entries, which is stored like the content of a file. The
	// checkpoints after it have the same.
	Manifest string `json:"manifest"`
	// Index is the SHA-256 of the index of the agent's git, which is stored too.
	Index string `json:"index,omitempty"`
	// Changed are the first paths that changed since the checkpoint before, and ChangedCount is the
	// number of all. Whole is why the whole tree was read instead; then neither is known.
	Changed      []string `json:"changed,omitempty"`
	ChangedCount int      `json:"changed_count,omitempty"`
	Whole        string   `json:"whole,omitempty"`
	// Branch and Commit are where the agent was.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Head is where HEAD was: "ref: refs/heads/NAME", or a commit. Refs are the refs of the agent's own, by their
	// full names, and "refs/stash", with the objects that they named. Their commits are kept as long as the
	// checkpoint. Head is "" if they are not known.
	Head  string            `json:"head,omitempty"`
	Refs  map[string]string `json:"refs,omitempty"`
	Files int               `json:"files"`
	Links int               `json:"links"`
	Dirs  int               `json:"directories"`
	Bytes int64             `json:"bytes"` // of the files
	// Added is how many bytes the store grew by.
	Added int64 `json:"added_bytes"`
	// Ignored are the patterns of files that git ignores and this snapshot has all the same ([snapshots] ignored).
	Ignored []string `json:"ignored,omitempty"`
	// LeftOut is the number of pipes, sockets and devices, which no snapshot has.
	LeftOut int `json:"left_out,omitempty"`
	// StillMS is for how long the processes of the agent were frozen, in milliseconds.
	StillMS int64 `json:"still_ms,omitempty"`
	// Kept: it was mounted once, and is not removed because of its age or number.
	Kept bool `json:"kept,omitempty"`
	// MountedAt is where it is mounted. Only the answer about one snapshot has it.
	MountedAt string `json:"mounted_at,omitempty"`
	// MountedInside is where its agent sees it mounted in its sandbox. Only the answer about one snapshot has it.
	MountedInside string `json:"mounted_inside,omitempty"`
}

// SnapshotMountRequest mounts a snapshot, read-only.
type SnapshotMountRequest struct {
	// At is an empty directory, by an absolute path without symbolic links; "" is one that polis makes.
	At string `json:"at,omitempty"`
	// Inside mounts it in the sandbox of its agent, below /run/polis/snapshots. It has what the agent's rules let it
	// read, and is not kept beyond the mount. At must be "".
	Inside bool `json:"inside,omitempty"`
}

// SnapshotMount is a snapshot that was mounted or unmounted.
type SnapshotMount struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	At    string `json:"at"`
	// Inside: At is a path in the agent's sandbox.
	Inside bool `json:"inside,omitempty"`
}

// SnapshotFile is one entry of a snapshot.
type SnapshotFile struct {
	Path string `json:"path"`
	// Kind is "file", "directory" or "link".
	Kind string `json:"kind"`
	// Mode is the permission bits as four octal digits; "" for a link.
	Mode string `json:"mode,omitempty"`
	// Hash is the SHA-256 of the content of a file, or of the target of a link.
	Hash string `json:"hash,omitempty"`
	Size int64  `json:"size,omitempty"`
}

// SnapshotChange is how a path differs between two states.
type SnapshotChange struct {
	Path string `json:"path"`
	// How is "added", "removed", "modified" (its content), "mode" (only its mode or extended
	// attributes) or "type".
	How  string        `json:"how"`
	From *SnapshotFile `json:"from,omitempty"`
	To   *SnapshotFile `json:"to,omitempty"`
}

// SnapshotDiff is how a later state differs from a snapshot.
type SnapshotDiff struct {
	From string `json:"from"`
	// To is a snapshot; "" is the agent's files now.
	To string `json:"to,omitempty"`
	// Hash is the content hash of the later state.
	Hash    string           `json:"hash"`
	Changes []SnapshotChange `json:"changes"`
}

// SnapshotCheck is the result of the verification of a snapshot.
type SnapshotCheck struct {
	ID string `json:"id"`
	// Objects and Bytes are what was read.
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Damaged are paths whose stored content is missing or does not match its hash, at most 100.
	Damaged []string `json:"damaged"`
	// Intact reports whether everything matches.
	Intact bool `json:"intact"`
	// Against is the agent whose files were compared with the snapshot, if any were; Changed is how many
	// paths differ, and Changes are the first 100 of them.
	Against string           `json:"against,omitempty"`
	Changed int              `json:"changed,omitempty"`
	Changes []SnapshotChange `json:"changes,omitempty"`
}

// SnapshotRestoreRequest brings files of an agent back to the state of a snapshot.
type SnapshotRestoreRequest struct {
	// Paths are the files and directories to restore; none: all that the snapshot covers.
	Paths []string `json:"paths,omitempty"`
	// DryRun only returns what would change.
	DryRun bool `json:"dry_run,omitempty"`
}

// CheckpointRequest makes a checkpoint of an agent.
type CheckpointRequest struct {
	// Note is a text for people, at most 500 bytes.
	Note string `json:"note,omitempty"`
}

// RewindRequest brings files of an agent back to an earlier state.
type RewindRequest struct {
	// To is the ID of a checkpoint or snapshot, a duration such as "5m" for the state so long ago, or
	// "before task N", "before merge N", "before tool NAME" or "before rebase"; "" is the last checkpoint.
	To string `json:"to,omitempty"`
	// Branch brings back HEAD, the index and the refs of the agent's own, too; not with Paths.
	Branch bool `json:"branch,omitempty"`
	// Paths and DryRun are as in SnapshotRestoreRequest.
	Paths  []string `json:"paths,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`
}

// SnapshotRestored describes a restore.
type SnapshotRestored struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Before is the snapshot of the state before the restore; "" if nothing changed, or with
	// SnapshotRestoreRequest.DryRun.
	Before string `json:"before,omitempty"`
	// Changed is the number of paths, Paths are the first 100 of them.
	Changed int      `json:"changed"`
	Paths   []string `json:"paths"`
	StillMS int64    `json:"still_ms,omitempty"`
	// Refs are HEAD and the refs that were moved, with RewindRequest.Branch.
	Refs []RefMoved `json:"refs,omitempty"`
}

// RefMoved is a ref, or HEAD, and where it was and is. From and To are commits, or "ref: NAME".
type RefMoved struct {
	Ref  string `json:"ref"`
	From string `json:"from"`
	To   string `json:"to"`
}
