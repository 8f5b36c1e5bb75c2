package api

// ToSign is a merge that a person signs: a merge commit of Tree with the parents Onto and Merged, and Message. A
// client makes it with the git of the person (git commit-tree -S), and returns it as MergeRequest.Signed.
type ToSign struct {
	Tree    string `json:"tree"`
	Onto    string `json:"onto"`   // where the target branch is
	Merged  string `json:"merged"` // where the agent's branch is
	Message string `json:"message"`
	// Objects are the raw objects of these three names, in that order, without which git makes no commit.
	Objects []RawObject `json:"objects"`
	// Project is the path of the user's checkout, whose git configuration names the key.
	Project string `json:"project"`
}

// RawObject is an object of git: its type and its content.
type RawObject struct {
	Type string `json:"type"`
	Data []byte `json:"data"`
}
