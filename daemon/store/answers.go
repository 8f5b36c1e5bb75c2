package store

import "polis/daemon/api"

// Answers are what people's answers to agents' questions mean for later ones, in a workspace.
type Answers struct {
	// Version grows with every change: a set of rules is never changed in place.
	Version uint64             `json:"version"`
	Rules   []api.ApprovalRule `json:"rules"`
	// Revoked are the IDs of the last rules that were revoked: an answer that is
	// reported late does not bring its rule back.
	Revoked []string `json:"revoked,omitempty"`
}
