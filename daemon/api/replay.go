package api

// ReplayCounts is the result of the requests that an agent sent to model services while they were
// answered from a recording.
type ReplayCounts struct {
	// Recorded are the requests of the recording, Matched those of them that were requested again.
	Recorded int `json:"recorded"`
	Matched  int `json:"matched"`
	// Repeated requests were answered as the same request before.
	Repeated int `json:"repeated,omitempty"`
	// Ordered requests differ from those that are recorded, and were answered by order.
	Ordered int `json:"ordered,omitempty"`
	// Unmatched requests were refused: the recording has none like them.
	Unmatched int `json:"unmatched,omitempty"`
	// Differences say how requests differed; the first 32.
	Differences []string `json:"differences,omitempty"`
}

// ReplayRequest replays a task: a new agent gets the task where it began, and its requests to model
// services are answered from the recording of the task. It reaches nothing else.
type ReplayRequest struct {
	// Name is that of the new agent; "": one is chosen.
	Name string `json:"name,omitempty"`
	// ByOrder answers a request that is not recorded with the next recorded answer.
	ByOrder bool `json:"by_order,omitempty"`
}

// Trees that a replay can end with.
const (
	TreeSame      = "same"
	TreeDifferent = "different"
	// TreeUnknown: the commits cannot be compared.
	TreeUnknown = "unknown"
)

// Replay is a replay of a task.
type Replay struct {
	// Of is the recorded task, Agent the one that replays it, Task its task.
	Of    string `json:"of"`
	Agent string `json:"agent"`
	Task  string `json:"task"`
	// Ended: the fields below are final.
	Ended bool `json:"ended"`
	// Result is that of Task.
	Result string `json:"result,omitempty"`
	ReplayCounts
	// Unknown is why there are no counts.
	Unknown string `json:"unknown,omitempty"`
	// Stopped is why the last requests of the recorded task are not in the recording.
	Stopped string `json:"stopped,omitempty"`
	// Tree is how what the replay committed compares to what the recorded task did: TreeSame,
	// TreeDifferent or TreeUnknown. Paths are some that differ.
	Tree  string   `json:"tree,omitempty"`
	Paths []string `json:"paths,omitempty"`
}

// Same reports whether the replay has ended as the recorded task: all requests were matched and the
// trees are the same.
func (r Replay) Same() bool {
	return r.Ended && r.Unknown == "" && r.Unmatched == 0 && r.Ordered == 0 && r.Matched == r.Recorded && r.Tree == TreeSame
}
