package api

// Operations of a TimelineRequest.
const (
	TimelineList       = "list"
	TimelineCheckpoint = "checkpoint"
	TimelineRewind     = "rewind"
	TimelineMount      = "mount"
	TimelineUnmount    = "umount"
	// TimelineTool is for the agent's shim, before a call of a tool: an agent cannot use it.
	TimelineTool = "tool"
)

// TimelineRequest is what an agent wants of its own timeline, in its sandbox.
type TimelineRequest struct {
	Op string `json:"op"`
	// Note is a text for people, at most 500 bytes, for checkpoint and tool.
	Note string `json:"note,omitempty"`
	// Tool is the name of the tool, for tool.
	Tool string `json:"tool,omitempty"`
	// Rewind is for the operation of that name.
	Rewind *RewindRequest `json:"rewind,omitempty"`
	// Which is the checkpoint to mount, as RewindRequest.To, or the ID of the one to unmount.
	Which string `json:"which,omitempty"`
}

// TimelineResponse answers TimelineRequest: the checkpoints, oldest first, or the one that was made or
// already has the state; what a rewind did; or what was mounted or unmounted.
type TimelineResponse struct {
	Checkpoints []Snapshot        `json:"checkpoints,omitempty"`
	Restored    *SnapshotRestored `json:"restored,omitempty"`
	Mounted     *SnapshotMount    `json:"mounted,omitempty"`
}
