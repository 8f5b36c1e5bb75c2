package api

import "time"

// ReceiptsReplay is the state of a workspace at one entry of its log, rebuilt from its receipts alone,
// with the differences from what can be verified. Lists are sorted.
type ReceiptsReplay struct {
	Workspace string `json:"workspace"`
	// Entry is the number of the entry of the log of the workspace, Hash its hash.
	Entry uint64    `json:"entry"`
	Hash  string    `json:"hash"`
	Time  time.Time `json:"time"`
	// Last: it is the newest entry, and was compared with the present state of polisd.
	Last bool `json:"last"`
	// First is the oldest entry that there is: what happened before it is not known if it is above 1.
	First     uint64             `json:"first"`
	Agents    []ReplayedAgent    `json:"agents"`
	Targets   []ReplayedTarget   `json:"targets"`
	Refs      []ReplayedRef      `json:"refs"`
	Snapshots []ReplayedSnapshot `json:"snapshots"`
	// StateHash is the SHA-256 of the JSON of agents, targets, refs and snapshots: the same receipts
	// give the same hash.
	StateHash string `json:"state_hash"`
	// Verified counts the comparisons that were made.
	Verified    int                `json:"verified"`
	Differences []ReplayDifference `json:"differences"`
	// Unknown are parts of the state that the receipts do not have, with the reason.
	Unknown []string `json:"unknown"`
}

// ReplayedAgent is an agent that existed at an entry.
type ReplayedAgent struct {
	Name string `json:"name"`
	// Entry is the one with which it began; 0: that was removed, or is of an older polis.
	Entry    uint64 `json:"entry,omitempty"`
	Branch   string `json:"branch,omitempty"`
	BaseType string `json:"base_type,omitempty"`
	Role     string `json:"role,omitempty"`
	// PolicyHash is the SHA-256 of the JSON of its policy; "" if it is not known.
	PolicyHash string `json:"policy_hash,omitempty"`
	// Leases are what it held.
	Leases []ReplayedLease `json:"leases"`
	// Checkpoint is the last one that was made of its files by itself; nil: none.
	Checkpoint *ReplayedCheckpoint `json:"checkpoint,omitempty"`
}

// ReplayedCheckpoint is a checkpoint of an agent. List and Delta are the hashes of what its state is stored by. Hash and Metadata are
// those of a snapshot; "" if they were not computed.
type ReplayedCheckpoint struct {
	ID       string `json:"id"`
	Why      string `json:"why"`
	List     string `json:"list"`
	Delta    string `json:"delta,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Metadata string `json:"metadata_hash,omitempty"`
	// Entry is that of the agent's log.
	Entry uint64 `json:"entry"`
}

// ReplayedLease is a lease that an agent held.
type ReplayedLease struct {
	Path     string `json:"path"` // see EncodePath
	Explicit bool   `json:"explicit,omitempty"`
	Tree     bool   `json:"tree,omitempty"`
}

// ReplayedTarget is a branch after the last merge or revert of polis.
type ReplayedTarget struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// Tree is the tree of the commit in the repository; "" if it is not there.
	Tree string `json:"tree,omitempty"`
	// Entry is that of the merge or revert, Merges how many there were up to it.
	Entry  uint64 `json:"entry"`
	Merges int    `json:"merges"`
}

// ReplayedRef is a ref that an agent's git had published.
type ReplayedRef struct {
	Agent string `json:"agent"`
	Ref   string `json:"ref"`
}

// ReplayedSnapshot is a snapshot that existed.
type ReplayedSnapshot struct {
	ID       string `json:"id"`
	Agent    string `json:"agent"`
	Hash     string `json:"hash"`
	Metadata string `json:"metadata_hash,omitempty"`
	Entry    uint64 `json:"entry"`
}

// ReplayDifference is something that is not as the receipts have it.
type ReplayDifference struct {
	// What is what differs, such as "target main" or "agent claude".
	What string `json:"what"`
	// Recorded is what the receipts have, Found what there is.
	Recorded string `json:"recorded"`
	Found    string `json:"found"`
}
