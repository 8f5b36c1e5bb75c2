package api

import "time"

// Event is one thing that happened. IDs grow, by one in a daemon's life, and
// are never given out again, also not after a restart; Last-Event-ID resumes
// from them. polisd keeps the last 4096 or so in memory: if there were others
// after the one that is resumed from, an event of type EventEventsMissed with
// the same ID comes first.
type Event struct {
	ID      uint64         `json:"id"`
	Time    time.Time      `json:"time"`
	Type    string         `json:"type"`
	Agent   string         `json:"agent,omitempty"`
	Code    Code           `json:"code,omitempty"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

// Probe reports whether the event is a refusal that many programs provoke at every start
// and do without. It is counted; people see it only if they ask for all.
func (e Event) Probe() bool {
	probe, _ := e.Data["probe"].(bool)
	return probe
}

// Types of events. Consumers must ignore the ones they do not know.
const (
	EventAgentCreated     = "agent:created"
	EventAgentStatus      = "agent:status"
	EventAgentSettings    = "agent:settings"
	EventAgentRemoved     = "agent:removed"
	EventAgentMerged      = "agent:merged"
	EventAgentMergeFailed = "agent:merge-failed"
	EventAgentDiscarded   = "agent:discarded"
	EventAgentReverted    = "agent:reverted"
	EventAgentRestored    = "agent:restored"
	EventAgentForked      = "agent:forked"
	EventQueue            = "queue:changed"
	EventMergeReady       = "merge:ready"
	EventMergeMerged      = "merge:merged"
	EventMergeFailed      = "merge:failed"
	EventMergeWithdrawn   = "merge:withdrawn"
	EventMergeRework      = "merge:rework"
	EventTask             = "agent:task"
	EventAgentPull        = "agent:pull-request"
	EventWorker           = "agent:worker" // it was made for a task that was delegated
	EventApprovalAsked    = "approval:asked"
	EventApprovalAnswered = "approval:answered"
	EventApprovalGone     = "approval:withdrawn" // what asked does not wait any more
	EventStatusUpdate     = "agent:status-update"
	EventLeftovers        = "agent:leftovers"
	EventDenied           = "access:denied"
	EventLockConflict     = "lock:conflict"
	EventLock             = "lock:changed"
	EventConflictFound    = "conflict:found"
	EventConflictGone     = "conflict:gone"
	EventLockWaiting      = "lock:waiting"
	EventLockBroken       = "lock:broken"
	EventLockLost         = "lock:lost"
	EventLockBehind       = "lock:behind"
	EventRemote           = "agent:remote"
	EventMaintained       = "workspace:maintained"
	EventDamaged          = "workspace:damaged"
	EventDown             = "workspace:removed"
	EventOOM              = "limit:oom"
	EventMemoryPressure   = "limit:memory"
	EventPids             = "limit:pids"
	EventDisk             = "limit:disk"
	EventFiles            = "limit:files"
	EventConnections      = "limit:connections"
	EventPort             = "port:changed"
	EventHostPort         = "port:host"
	EventReconciled       = "daemon:reconciled"
	EventState            = "daemon:state"
	EventShim             = "agent:shim"
	EventPatrol           = "agent:patrol"
	EventCase             = "patrol:case"
	EventFrozen           = "agent:frozen"
	EventThawed           = "agent:thawed"
	EventCleanup          = "agent:cleanup"
	EventRace             = "race:changed"
	EventMissed           = "agent:events-missed"
	EventEventsMissed     = "events:missed"
)
