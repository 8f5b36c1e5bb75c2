package table

import "time"

// Mode is what a lease allows. Any number of holders may have a read lease on a path; a write
// lease is exclusive.
type Mode string

// The two modes; the text is the value of lock_type in the API.
const (
	Read  Mode = "read"
	Write Mode = "write"
)

// Exclusive is the key of the repository-wide lock: it conflicts with every
// ref key (and with itself) of its workspace, and with no file.
const Exclusive = "repo:exclusive"

// RefPrefix begins the key of a ref lock: "ref:refs/heads/main".
const RefPrefix = "ref:"

// Limits of one request; a larger one is malformed, not merely unlucky.
const (
	MaxKeys   = 1024 // keys in one request
	MaxPath   = 4096 // bytes of a path or workspace, as PATH_MAX
	MaxReason = 1024 // bytes of a reason
	MaxName   = 128  // bytes of an agent or holder name
)

// maxToken keeps tokens exact in JSON readers that have only doubles.
const maxToken = 1 << 53

// Key is one path of a request.
type Key struct {
	// Path is relative to the root of the repository, or a ref key, or Exclusive.
	Path string
	// Tree claims everything at and below Path.
	Tree bool
	Mode Mode
	// Wait bounds the wait for this key; 0 refuses at once.
	Wait time.Duration
	// Merge marks a lease that its holder keeps until the merge, Keep says how long it keeps one after the last use. The
	// table only stores them.
	Merge bool
	Keep  time.Duration
}

// Request requests several keys, all or nothing.
type Request struct {
	Workspace string
	Holder    string
	// Session is the id of the holder's session. A request of a person (or of the daemon) has
	// none and sets Explicit.
	Session  string
	Explicit bool
	Keys     []Key
	// Op and Pid identify the requester, for display.
	Op     string
	Pid    uint32
	Reason string
	// For ends an explicit lease after this time; 0 means never.
	For time.Duration
	// Most bounds how long an explicit lease lasts in all, renewals included; 0 means no bound.
	Most time.Duration
	// Soft leaves an explicit lease unchanged that the holder has already and that covers the
	// key.
	Soft bool
}

// Lease is one granted lock as people and the API see it. The JSON names are those of the API.
type Lease struct {
	Workspace string    `json:"workspace"`
	Path      string    `json:"path"`
	Holder    string    `json:"holder"`
	Mode      Mode      `json:"lock_type"`
	Tree      bool      `json:"tree,omitempty"`
	Since     time.Time `json:"acquired_at"`
	// Token grows with every grant of the table, across restarts: of two leases on one path the
	// later one has the higher token.
	Token uint64 `json:"token"`
	// Waiters names, in queue order, the holders that wait for this lease.
	Waiters []string `json:"waiters"`
	// Waiting is the same with the time since when and what for; it is filled like Waiters, by
	// Table.List only.
	Waiting []Awaiter `json:"waiting,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// Expires is zero for a lease without a time limit.
	Expires time.Time `json:"expires_at,omitzero"`
	// Explicit leases were taken by name, not by writing to a file.
	Explicit bool `json:"explicit,omitempty"`
	Merge    bool `json:"until_merge,omitempty"`
	// Keep is how long the holder keeps the lease after its last use.
	Keep time.Duration `json:"keep_ns,omitempty"`
	Op   string        `json:"op,omitempty"`
	Pid  uint32        `json:"pid,omitempty"`
}

// Hold is how long the lease lasts, in one word: "explicit" until it is released, "merge" until
// the merge, "use" as long as its holder uses it.
func (l Lease) Hold() string {
	switch {
	case l.Merge:
		return "merge"
	case l.Explicit:
		return "explicit"
	}
	return "use"
}

// Awaiter is a holder that waits for a lease.
type Awaiter struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Op     string    `json:"op,omitempty"`
}

// Filter selects leases; an empty field selects all.
type Filter struct {
	Workspace string
	Holder    string
	Path      string
}

// Claim is a lease that a session claims to have.
type Claim struct {
	Key
	Token uint64
	Since time.Time
}

// WaitID identifies a queued request.
type WaitID uint64

// Result of an Acquire: either Leases, in sorted order of their paths, or the
// id of the queued request.
type Result struct {
	Leases []Lease
	Wait   WaitID
}

// EffectKind is the kind of an Effect.
type EffectKind int

// The kinds of effects.
const (
	// Granted: the queued request Wait now has Leases.
	Granted EffectKind = iota + 1
	// Refused: the queued request Wait has ended with Err.
	Refused
	// Waiting: request Request was queued because of Lease.
	Waiting
	// Dropped: Lease was taken from its holder for the reason Why.
	Dropped
	// SessionStale: the connection of Holder is lost; its leases have StaleTimeout left.
	SessionStale
	// SessionGone: the session of Holder and its leases are gone for the reason Why.
	SessionGone
	// GraceOver: the grace period has ended after Took, new leases are granted. Awaited are the
	// agents that had not come back.
	GraceOver
	// Recall: Holder is to return Delegation (Dir and Last are set).
	Recall
	// Overdue: the recalled delegation of Holder was not returned in time.
	Overdue
)

// Why a lease or session ended.
type Why string

// The reasons.
const (
	WhyUnlocked Why = "unlocked" // its holder released an explicit lease
	WhyExpired  Why = "expired"  // the time of an explicit lease is over
	WhyBroken   Why = "broken"   // an administrator took it
	WhyStale    Why = "stale"    // the session did not come back in time
	WhyBye      Why = "bye"      // the session ended normally, or its agent was removed
	WhyReplaced Why = "replaced" // the agent has a new session
	WhyEvicted  Why = "evicted"  // another session reclaimed it with a higher token
	WhyMerged   Why = "merged"   // kept until the merge, which has happened
	WhyUnknown  Why = "unknown"  // the resumed session did not claim it
)

// Effect is what a call did to others than its caller.
type Effect struct {
	Kind       EffectKind
	Wait       WaitID
	Leases     []Lease
	Lease      Lease
	Delegation Delegation
	Request    Request
	Holder     string
	Session    string
	Why        Why
	Err        error
	Took       time.Duration
	Awaited    []string
}
