package api

import "time"

// CaseState is how far a case is (seed 004, "Cleanup Wisp Lifecycle").
type CaseState string

// The states.
const (
	CasePending        CaseState = "pending"         // something is kept, or held, until a person decides
	CaseMergeRequested CaseState = "merge-requested" // its branch waits for the merge queue
	CaseZombieDetected CaseState = "zombie-detected" // it died, hangs or spins, and the patrol may do no more
	CaseResolved       CaseState = "resolved"        // a person or the facts ended it
)

// Case is something about an agent that stays open until a person or the facts resolve it. At most
// one is open per agent, kind and incident.
type Case struct {
	ID    string    `json:"id"`
	State CaseState `json:"state"`
	// Kind is what it is about: a class of the patrol, "cleanup", "merge", "breaker" or "task".
	Kind      string `json:"kind"`
	Workspace string `json:"workspace"`
	Agent     string `json:"agent"`
	// AgentCreated is when the agent was added: another agent can get its name later. Cases of
	// earlier versions have none.
	AgentCreated time.Time `json:"agent_created,omitzero"`
	Generation   uint64    `json:"generation,omitempty"`
	Task         string    `json:"task,omitempty"`
	// Incident distinguishes cases of one agent and kind; a person's answer holds for one incident.
	Incident string `json:"incident,omitempty"`
	// Evidence is what was seen, one fact each.
	Evidence []string `json:"evidence"`
	// Resolves is the fact that would resolve it, Next what a person can do.
	Resolves string `json:"resolves"`
	Next     string `json:"next"`
	// Rewind is the last checkpoint from before what it is about, to which the agent's files can be brought
	// back; "" if there is none.
	Rewind string `json:"rewind,omitempty"`
	// Opened is when it was opened, Updated when its state or evidence last changed, Seen how
	// often it was found.
	Opened  time.Time `json:"opened"`
	Updated time.Time `json:"updated"`
	Seen    int       `json:"seen"`
	// Escalated is how often a person was notified.
	Escalated int `json:"escalated,omitempty"`
	// EscalatedAt is when a person was notified last; zero if nobody was.
	EscalatedAt time.Time `json:"escalated_at,omitzero"`
	// Resolution is how it ended; nil while it is open.
	Resolution *CaseResolution `json:"resolution,omitempty"`
}

// CaseResolution is how a case ended.
type CaseResolution struct {
	At time.Time `json:"at"`
	// By is the user who resolved it, "" if the facts did.
	By string `json:"by,omitempty"`
	// How is what the user wrote, or the fact.
	How string `json:"how,omitempty"`
}

// Open reports whether the case waits for something.
func (c Case) Open() bool { return c.State != CaseResolved }

// StateText is the state in words for people: an agent whose program lives and waits is no zombie, it needs a person.
func (c Case) StateText() string {
	switch PatrolClass(c.Kind) {
	case PatrolStalled, PatrolSpinning, PatrolStuckInDone, PatrolTaskClosed:
		if c.State == CaseZombieDetected {
			return "needs you"
		}
	case PatrolSessionDead, PatrolAgentDead:
	}
	return string(c.State)
}

// OfAgent reports whether the case is about the agent of this workspace and name that was added at
// created, and not about one that had the name earlier.
func (c Case) OfAgent(workspace, name string, created time.Time) bool {
	return c.Workspace == workspace && c.Agent == name && (c.AgentCreated.IsZero() || c.AgentCreated.Equal(created))
}

// ResolveRequest resolves a case.
type ResolveRequest struct {
	// Note is kept with the case: one line.
	Note string `json:"note,omitempty"`
}

// CaseDigest counts the cases.
type CaseDigest struct {
	Open           int `json:"open"`
	Pending        int `json:"pending"`
	MergeRequested int `json:"merge_requested"`
	ZombieDetected int `json:"zombie_detected"`
	// Resolved are the last resolved ones that are still listed.
	Resolved int `json:"resolved"`
}
