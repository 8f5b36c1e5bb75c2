package wire

import "polis/daemon/api"

// Event types that a shim emits for polisd alone. polisd acts on them and publishes the others.
// Their names are part of the protocol.
const (
	EventPrefix = "shim:"

	EventExit     = "shim:exit"     // the main command ended
	EventDone     = "shim:done"     // the agent ended its task itself
	EventAnswered = "shim:answered" // data.answered is an Answered that polisd acts on
	EventMemory   = "shim:memory"   // an answer has raised the memory limit to data.memory_mb
	EventOwnRef   = "shim:own-ref"  // the agent made the ref in data.ref, or removed one of its own (data.gone)

	EventKeyRefused = "shim:key-refused" // data.service answered 401, although it got the key
	// The budget is spent, and the task in data.task ends, or with no task the agent of data.generation; data.text and data.bound say why.
	EventModelStop = "shim:model-stop"
	// The agent has used half of its part of the budget that its role shares, or all of it; and a person has raised
	// data.bound of data.role to data.to on data.day.
	EventModelShare = "shim:model-share"
	EventModelRaise = "shim:model-raise"
	EventModelPause = "shim:model-pause" // the model service in data.service asked to wait until data.until

	// A port of the agent, data.port, has got a listener or has lost it. UDP has types of its own
	// since UDPVersion: an older polisd takes every port for one of TCP.
	EventListen      = "shim:listen"
	EventUnlisten    = "shim:unlisten"
	EventListenUDP   = "shim:listen-udp"
	EventUnlistenUDP = "shim:unlisten-udp"
)

// LeftEvents is the file that a shim leaves when it ends, for a polisd that does not read its events any more.
type LeftEvents struct {
	// Unfinished: the shim has not ended in order, and what it had counted and not reported is lost.
	Unfinished bool        `json:"unfinished,omitempty"`
	Events     []api.Event `json:"events,omitempty"`
}

// Refusals returns the events about refusals after the one with the number seen, and how many events of any kind are
// missing: the shim had no room for them. With 0 it is not known whether earlier ones are missing.
func (l LeftEvents) Refusals(seen uint64) (out []api.Event, missing uint64) {
	for _, e := range l.Events {
		if e.ID <= seen {
			continue
		}
		if seen != 0 {
			missing += e.ID - seen - 1
		}
		seen = e.ID
		switch e.Type {
		case api.EventDenied, api.EventLockConflict, api.EventMissed:
			out = append(out, e)
		}
	}
	return out, missing
}
