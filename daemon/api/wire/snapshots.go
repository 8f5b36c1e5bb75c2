package wire

import (
	"strings"
	"time"
)

// SnapshotsVersion is the first that mounts snapshots, InsideSnapshotsVersion the first that mounts them in the
// sandbox.
const SnapshotsVersion, InsideSnapshotsVersion = 28, 31

// SnapshotsPath is where a sandbox sees its mounted snapshots.
const SnapshotsPath = "/run/polis/snapshots"

// InsideSnapshot is the path of a mounted snapshot in its sandbox.
func InsideSnapshot(id string) string { return SnapshotsPath + "/" + id }

// MountRequest mounts a snapshot of the agent's files, read-only.
type MountRequest struct {
	ID string `json:"id"`
	// Store is the directory of the contents. Manifest is the content with the list of files, and Delta that with
	// what differs from it; "" for nothing.
	Store    string `json:"store"`
	Manifest string `json:"manifest"`
	Delta    string `json:"delta,omitempty"`
	// At is an empty directory, without a symbolic link in its path; "" for one in the directory of the
	// shim.
	At string `json:"at,omitempty"`
	// Inside mounts it in the sandbox, at InsideSnapshot, where it has what the agent's rules let it read. Since
	// InsideSnapshotsVersion.
	Inside bool `json:"inside,omitempty"`
	// Time is the time of its files.
	Time time.Time `json:"time"`
}

// Mounted is a snapshot that is mounted.
type Mounted struct {
	ID string `json:"id"`
	At string `json:"at"`
	// Inside: in the sandbox.
	Inside bool `json:"inside,omitempty"`
}

// snapshotType is the type of a mounted snapshot in the kernel's table.
const snapshotType = "fuse.polis-snapshot"

// SnapshotSource is the source of the mount of a snapshot. It names the run directory of the agent: a mount can
// be anywhere, and another polisd can have an agent of the same name.
func SnapshotSource(runDir, id string) string { return "polis-snapshot:" + runDir + ":" + id }

// IsSnapshot reports whether a mount of this type and source is a snapshot that the shim in runDir has
// mounted.
func IsSnapshot(fsType, source, runDir string) bool {
	return fsType == snapshotType && strings.HasPrefix(source, SnapshotSource(runDir, ""))
}
