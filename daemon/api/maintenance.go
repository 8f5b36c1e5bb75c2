package api

import "time"

// RepositorySize is what a shared repository holds.
type RepositorySize struct {
	LooseObjects  int64 `json:"loose_objects"`
	LooseBytes    int64 `json:"loose_bytes"`
	PackedObjects int64 `json:"packed_objects"`
	Packs         int64 `json:"packs"`
	PackBytes     int64 `json:"pack_bytes"`
	Garbage       int64 `json:"garbage"` // files git does not know
}

// MaintenanceStep is one part of the work.
type MaintenanceStep struct {
	Name   string `json:"name"`
	Millis int64  `json:"ms"`
	Error  string `json:"error,omitempty"`
}

// MaintenanceReport describes what maintenance of a workspace's repository did.
type MaintenanceReport struct {
	Workspace  string            `json:"workspace"`
	StartedAt  time.Time         `json:"started_at"`
	FinishedAt time.Time         `json:"finished_at,omitzero"`
	DryRun     bool              `json:"dry_run,omitempty"`
	Before     RepositorySize    `json:"before"`
	After      RepositorySize    `json:"after"`
	Steps      []MaintenanceStep `json:"steps"`
	// Unused is, for a dry run, how many objects would be removed.
	Unused int `json:"unused,omitempty"`
	// Removed are objects that nothing needed, and files of killed gits.
	Removed     int `json:"removed"`
	PacksJoined int `json:"packs_joined"`
	// Unreadable are agents whose git files are damaged, each with the reason:
	// none of the objects that it might need was removed.
	Unreadable []string `json:"unreadable,omitempty"`
	// LockedMillis is how long the exclusive lock was held.
	LockedMillis int64 `json:"locked_ms"`
	// Error describes what failed; the rest was done all the same.
	Error string `json:"error,omitempty"`
	// Next is when it is due again, zero if never by itself.
	Next time.Time `json:"next,omitzero"`
}

// MaintenanceRequest runs maintenance of one workspace now.
type MaintenanceRequest struct {
	Workspace string `json:"workspace,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"`
}
