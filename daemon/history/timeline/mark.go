package timeline

import (
	"slices"
	"strconv"
	"strings"

	"polis/daemon/api"
)

// Mark is why a checkpoint is made.
type Mark struct {
	// Why is one of the constants api.SnapshotBy; Note is for people.
	Why, Note string
	// Task is the number of the task that begins, else 0. For is the number of the merge, or the name of
	// the tool.
	Task int
	For  string
	// Quick makes no checkpoint if all of a large tree must be read: errors.Is(err, ErrLarge).
	Quick bool
	// Still is given if the caller holds the agent as Host.Hold does.
	Still Still
}

// named reports whether a checkpoint is made although nothing has changed since last, because people name it
// by what it was made before.
func (m Mark) named(last api.Snapshot) bool {
	switch m.Why {
	case api.SnapshotByTask:
		return true
	case api.SnapshotByMerge, api.SnapshotByRebase: // a merge can be tried several times
		return last.Why != m.Why || last.For != m.For
	}
	return false
}

// BeforeTask is the mark of a checkpoint before a task, whose ID is the agent's name, a dot and a number.
func BeforeTask(task api.Task) Mark {
	n, _ := strconv.Atoi(task.ID[strings.LastIndexByte(task.ID, '.')+1:]) //nolint:errcheck // without a number it is 0
	return Mark{Why: api.SnapshotByTask, Quick: true, Task: n, Note: api.Shorten(task.Prompt, 100)}
}

// BeforeMerge is the mark of a checkpoint before the merge with this number.
func BeforeMerge(e api.QueueEntry, target string) Mark {
	return Mark{Why: api.SnapshotByMerge, Quick: true, For: strconv.FormatUint(e.Seq, 10), Note: "into " + api.Shorten(target, 100)}
}

// BeforeRebase is the mark of a checkpoint before the target is merged into the agent's branch.
func BeforeRebase(target string) Mark {
	return Mark{Why: api.SnapshotByRebase, Quick: true, Note: "onto " + api.Shorten(target, 100)}
}

// BeforeTool is the mark of a checkpoint before a call of a tool. Both texts are the agent's.
func BeforeTool(tool, call string) Mark {
	return Mark{Why: api.SnapshotByTool, Quick: true, For: api.Shorten(tool, 64), Note: api.Shorten(call, 100)}
}

// Running returns the agents whose program runs.
func Running(all map[string]api.Status) []string {
	var out []string
	for name, status := range all {
		if status == api.StatusRunning {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// IsCheckpoint reports whether a snapshot was made by itself, and is only part of the timeline.
func IsCheckpoint(s api.Snapshot) bool {
	return s.Why != api.SnapshotByUser && s.Why != api.SnapshotByRestore
}

// frequent reports whether an agent at work makes many checkpoints of this kind: they must not displace
// the others.
func frequent(s api.Snapshot) bool {
	return s.Why == api.SnapshotByTime || s.Why == api.SnapshotByTool || s.Why == api.SnapshotByAgent
}
