package wire

import "polis/daemon/api"

// Values of Spec.Audit with which the shim records what the agent opens.
const (
	// AuditFull: every record becomes a receipt.
	AuditFull = "full"
	// AuditPolicy: only what a policy can be learned from is stored.
	AuditPolicy = "policy"
)

// Opens is the answer to GET /v1/opens: what processes of the agent opened and changed. The next
// request confirms it with Life and Next; until then it comes again.
type Opens struct {
	// Life identifies the list: numbers of another one mean nothing.
	Life uint64     `json:"life"`
	Next uint64     `json:"next"`
	List []api.Open `json:"opens"`
	// Dropped is how many records were dropped in this life.
	Dropped uint64 `json:"dropped"`
	// Unfinished is only in the file that a shim leaves: it has not ended in order, and what it had
	// recorded and not handed over is lost.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Operations of records that a policy is learned from, and that are no receipts: names that were
// resolved, or not allowed to be, and what the rules of the view refused.
const (
	OpResolve       = "resolve"
	OpResolveDenied = "resolve-denied"
	OpReadDenied    = "read-denied"
	OpWriteDenied   = "write-denied"
)

// OnlyLearned reports whether a record is only for learning a policy.
func OnlyLearned(o api.Open) bool {
	switch o.Op {
	case OpResolve, OpResolveDenied, OpReadDenied, OpWriteDenied:
		return true
	}
	return false
}

// OpensCount is the answer to GET /v1/opens?count=1: how many records were made in this life, and how many of them
// were confirmed. Since PolicyRecordVersion.
type OpensCount struct {
	Recorded  uint64 `json:"recorded"`
	Confirmed uint64 `json:"confirmed"`
}
