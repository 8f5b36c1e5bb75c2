package wire

import "fmt"

// The protocol versions of this build. A shim outlives the daemon that started
// it, so after an upgrade the daemon talks to older shims, and after going
// back to newer ones.
//
//	1  the first
//	2  Status has MinVersion, Listening and ExitedAt; the ring of events
//	   keeps what changes an agent's state longer than refusals
//	3  POST /v1/settings changes rules and limits of a living agent
//	4  StartRequest has NoInput
//	5  port maps of UDP: PortRequest, PortSpec and the removal of a map name
//	   the protocol, Status has ListeningUDP
//	6  the spec has the agent's gate, which the shim opens; settings have egress
//	7  settings have DiskBytes
//	8  settings have DiskFiles
//	9  settings have Connections
//	10 GET /v1/events?wakes=1 and POST /v1/look
//	11 settings have HostPorts
//	12 StartRequest names the task; Status has Task, Done and Output
//	13 settings have Vars
//	14 GET /v1/screen
//	15 GET and DELETE /v1/leftovers; Status has LeftRunning
//	16 POST /v1/release-idle
//	17 questions: GET /v1/approvals, POST /v1/approvals/{id}; settings have Tools
//	   and Remembered, Status has Waiting
//	18 StartRequest has Stream; GET /v1/steps
//	19 POST /v1/freeze and /v1/thaw; Status has Frozen
//	20 egress has "ask"
//	21 settings have MemoryAsk
//	22 settings have Breakers
//	23 POST /v1/changes
//	24 POST /v1/models and /v1/models/pause
//	25 GET /v1/opens
//	26 POST /v1/models has record, record_bytes and replay; GET /v1/models/replay
//	27 POST /v1/models has Services
//	28 POST /v1/snapshots and DELETE /v1/snapshots/{id}; Status has Snapshots
//	29 settings have Record
//	30 Services have RequestsPerMinute
//	31 POST /v1/snapshots has Inside, DELETE /v1/snapshots/{id}?inside=true
//	32 POST /v1/models has on_budget and budget_step
//	33 POST /v1/models/pause has turn
//	34 an answer of a question has raise
//	35 POST /v1/models has shared; POST /v1/models/shares
//	36 POST /v1/gate and /v1/blocked
//	37 POST /v1/remount
//	38 an answer of a question has the name of its user
const (
	// Version is what a shim of this build speaks.
	Version = 39
	// UDPVersion is the first that has port maps of UDP.
	UDPVersion = 5
	// MinVersion is the oldest that this build's daemon and shim understand.
	MinVersion = 1
	// The first that know DiskBytes, DiskFiles and Connections.
	DiskVersion, FilesVersion, ConnectionsVersion = 7, 8, 9
	// HostPortsVersion is the first that knows HostPorts.
	HostPortsVersion = 11
	// EnvVersion is the first that knows Settings.Vars.
	EnvVersion = 13
	// LeftoversVersion is the first that knows what is left running.
	LeftoversVersion = 15
	// ReleaseIdleVersion is the first that releases leases that nothing uses.
	ReleaseIdleVersion = 16
	// ApprovalsVersion is the first that has questions.
	ApprovalsVersion = 17
	// ScreenVersion is the first that reports its Screen.
	ScreenVersion = 14
	// StepsVersion is the first that reads a Stream and reports its Steps.
	StepsVersion = 18
	// FreezeVersion is the first that freezes its sandbox.
	FreezeVersion = 19
	// BreakersVersion is the first that knows Settings.Breakers.
	BreakersVersion = 22
	// ChangesVersion is the first that reports which paths changed.
	ChangesVersion = 23
	// NoInputVersion is the first that knows StartRequest.NoInput.
	NoInputVersion = 4
	// TaskVersion is the first that knows which task its command is.
	TaskVersion = 12
	// GatesVersion is the first whose gate of the network asks.
	GatesVersion = 20
	// PolicyRecordVersion is the first that knows Settings.Record.
	PolicyRecordVersion = 29
	// RaiseVersion is the first whose answers have an amount that a budget is raised by.
	RaiseVersion = 34
	// GateVersion is the first that writes the rules of its gate again, and takes a BlockedRequest.
	GateVersion = 36
	// RemountVersion is the first that mounts its views again.
	RemountVersion = 37
	// AnswerNameVersion is the first whose answers have the name of the user who gave them.
	AnswerNameVersion = 38
	// SaidVersion is the first that passes on what persons say to the agent, and reports Said.
	SaidVersion = 39
	// MemoryAskVersion is the first that knows Settings.MemoryAsk.
	MemoryAskVersion = 21
)

// VersionHeader of a request to a shim has the protocol version of its sender, since GateVersion.
const VersionHeader = "Polis-Protocol"

// Agree returns the newest version that this build and the shim of st both speak. A daemon must
// send a shim only fields of that version. A shim rejects unknown fields, because ignoring a field
// could mean ignoring a rule.
func Agree(st Status) (int, error) {
	oldest := st.MinVersion
	if oldest == 0 {
		oldest = st.Version
	}
	v := min(st.Version, Version)
	if v < MinVersion || v < oldest {
		return 0, fmt.Errorf("the shim speaks protocol version %s, this polisd %s", span(oldest, st.Version), span(MinVersion, Version))
	}
	return v, nil
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d to %d", from, to)
}
