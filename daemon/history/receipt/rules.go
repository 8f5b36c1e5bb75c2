package receipt

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// Recorded reports whether an event is a receipt: what was decided about an agent, what it was
// refused, and what it changed for others. Progress, measurements and what follows from other events
// are not.
func Recorded(e api.Event) bool {
	switch e.Type {
	case api.EventAgentStatus, api.EventStatusUpdate, api.EventMemoryPressure, api.EventPort, api.EventHostPort, api.EventQueue, api.EventMaintained,
		api.EventNetwork, api.EventBlocked, api.EventSocket, api.EventReconciled, api.EventState, api.EventEventsMissed, api.EventPatrol, api.EventConflictFound, api.EventConflictGone, api.EventLockWaiting:
		return false
	}
	return !e.Probe() && !strings.HasPrefix(e.Type, "shim:")
}

// byAgent reports whether an agent can cause the event as often as it likes: such receipts are in its
// own log, and there are as many in a second as its share allows.
func byAgent(typ string) bool {
	switch typ {
	case api.EventDenied, api.EventLockConflict, api.EventLock, api.EventLockLost, api.EventLockBehind, api.EventApprovalAsked, api.EventApprovalGone, api.EventApprovalCovered,
		api.EventOOM, api.EventPids, api.EventDisk, api.EventFiles, api.EventConnections, api.EventRemote, api.EventMissed, api.EventAgentRef, api.EventModelUsed, api.EventModelKey, api.EventServiceCall, api.ReceiptLeases, api.ReceiptCheckpoint:
		return true
	}
	return false
}

// sameness is what equal events of one agent have in common: they become one entry with a count.
func sameness(e api.Event) string {
	text := func(key string) string { s, _ := e.Data[key].(string); return s }
	if e.Type == api.ReceiptLeases { // each is of other leases, or of another moment
		return fmt.Sprintf("%s %d %p", e.Type, e.Time.UnixNano(), e.Data)
	}
	if e.Type == api.EventModelUsed { // a later one has other sums
		return fmt.Sprint(e.Type, e.Data["task"], e.Data["requests"])
	}
	return strings.Join([]string{e.Type, string(e.Code), text("service"), text("op"), text("path"), text("others"), text("program"), text("holder"), text("id"), text("ref"), text("snapshot")}, "\x00")
}
