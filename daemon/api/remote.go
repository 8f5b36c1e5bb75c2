package api

// Operations of a RemoteRequest.
const (
	RemoteRefs  = "refs"  // list what the remote has
	RemoteFetch = "fetch" // bring it in, then list it
	RemotePush  = "push"
	// RemoteObjects is for objects that an agent's git misses: the objects that the
	// agent may read are brought up to the refs, and Refused says what is withheld.
	RemoteObjects = "objects"
)

// RemoteWithheld is the name of the remote that git of an agent asks for missing objects.
const RemoteWithheld = "polis-withheld"

// RemoteRequest is an agent's git that wants something of a remote of the project.
type RemoteRequest struct {
	Op     string `json:"op"`
	Remote string `json:"remote"`
	// Updates are what to push.
	Updates []RemoteUpdate `json:"updates,omitempty"`
	DryRun  bool           `json:"dry_run,omitempty"`
	// Objects are ids, for the operation of that name.
	Objects []string `json:"objects,omitempty"`
}

// RemoteApproved is the header of a request that a person has approved: the key of its question.
// Only the agent's shim sets it.
const RemoteApproved = "Polis-Approved"

// RemoteAsked is the value of that header for objects.
const RemoteAsked = "objects"

// RemoteQuestion is the detail "question" of the NOT_APPROVED that refuses a request until a
// person has approved it.
type RemoteQuestion struct {
	Text   string `json:"text"`
	Detail string `json:"detail,omitempty"`
	Note   string `json:"note,omitempty"`
	// Key is equal only for equal Text and Detail.
	Key string `json:"key"`
}

// RemoteUpdate moves a ref of the remote. An empty Commit removes it.
type RemoteUpdate struct {
	Ref    string `json:"ref"` // full name at the remote
	Commit string `json:"commit,omitempty"`
	Force  bool   `json:"force,omitempty"`
}

// RemoteRef is a ref of the remote.
type RemoteRef struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
}

// RemoteResponse answers RemoteRequest.
type RemoteResponse struct {
	Head string      `json:"head,omitempty"` // the branch the remote's HEAD is on, full name
	Refs []RemoteRef `json:"refs,omitempty"`
	// Refused says, by ref, why an update was not made; by id, at which path a
	// missing object is withheld, "" if that is not known.
	Refused map[string]string `json:"refused,omitempty"`
	// Ask has, by id, the path of each refused object that a person may approve.
	Ask map[string]string `json:"ask,omitempty"`
}
