package wire

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Status is the status of a shim: GET /v1/status.
type Status struct {
	// Version is the newest protocol version that the shim supports, MinVersion the
	// oldest (0: it supports one only). See Agree.
	Version    int    `json:"version"`
	MinVersion int    `json:"min_version,omitempty"`
	Agent      string `json:"agent"`
	Generation uint64 `json:"generation"`
	PID        int    `json:"pid"`
	InitPID    int    `json:"init_pid"`
	Running    bool   `json:"running"`
	MainPID    int    `json:"main_pid,omitempty"`
	// MainSince is when the main command was started; zero if it does not run, and of earlier shims.
	MainSince time.Time    `json:"main_since,omitzero"`
	StartedAt time.Time    `json:"started_at"`
	ExitCode  *int         `json:"exit_code,omitempty"`
	ExitedAt  *time.Time   `json:"exited_at,omitempty"`
	Counters  api.Counters `json:"counters"`
	// Times are of the same operations as Counters; nil if the shim is of an earlier version.
	Times     *api.AgentTimes   `json:"times,omitempty"`
	Memory    int64             `json:"memory"`
	CPUMicros int64             `json:"cpu_usec,omitempty"` // processor time used
	Processes int               `json:"processes"`
	Sessions  int               `json:"sessions"`
	Ports     []api.PortMapping `json:"ports"`
	OOM       string            `json:"oom,omitempty"`
	LimitHits []api.LimitHit    `json:"limit_hits,omitempty"`
	// Snapshots are those that are mounted. Since SnapshotsVersion.
	Snapshots []Mounted `json:"snapshots,omitempty"`
	// LeftRunning: the last command may have left processes running. Since LeftoversVersion.
	LeftRunning bool `json:"left_running,omitempty"`
	// Waiting is what the agent waits for. Since ApprovalsVersion.
	Waiting *api.Waiting `json:"waiting,omitempty"`
	// Frozen is set while the agent's processes are frozen. Since FreezeVersion.
	Frozen      *api.Frozen `json:"frozen,omitempty"`
	OwnedRefs   []string    `json:"owned_refs,omitempty"`
	LastEvent   uint64      `json:"last_event"`
	Address     string      `json:"address"`
	Passthrough bool        `json:"passthrough"`
	// Said: the agent's program asks after each call of a tool what was said. Since SaidVersion.
	Said bool `json:"said,omitempty"`
	// Audit is AuditFull if the shim records what the agent opens.
	Audit string `json:"audit,omitempty"`
	// Update is the last status_update of the agent's program during the current task.
	Update *api.StatusUpdate `json:"update,omitempty"`
	// Listening are the TCP ports that are open in the agent. Since version 2.
	Listening []int `json:"listening,omitempty"`
	// ListeningUDP are the UDP ports. Since UDPVersion.
	ListeningUDP []int `json:"listening_udp,omitempty"`
	// Task is the ID of the task of the main command. Done is set if the agent reported the task's
	// end. Output is the range of its output in the log. Since TaskVersion.
	Task   string           `json:"task,omitempty"`
	Done   *TaskDone        `json:"done,omitempty"`
	Output *api.OutputRange `json:"output,omitempty"`
	// Use is what the task used. LogEnd is the position of the next output. Since TaskVersion.
	Use    *api.TaskUse `json:"use,omitempty"`
	LogEnd int64        `json:"log_end,omitempty"`
	// Progress is what the shim saw of the main command's progress; nil if none runs, and of earlier shims.
	Progress *Progress `json:"progress,omitempty"`
}

// TaskDone is the agent's report of the end of its task.
type TaskDone struct {
	At      time.Time   `json:"at"`
	By      api.TaskEnd `json:"by"`
	Failed  bool        `json:"failed,omitempty"`
	Message string      `json:"message,omitempty"`
	// CleanupStatus is as in api.DoneRequest.
	CleanupStatus api.CleanupStatus `json:"cleanup_status,omitempty"`
}

// TaskExit is the end of a task whose program has exited, and what else only its shim knows of it.
type TaskExit struct {
	At   time.Time `json:"at"`
	Code int       `json:"code"`
	// OOM is the kill for memory that the program died of, in words.
	OOM    string          `json:"oom,omitempty"`
	Output api.OutputRange `json:"output"`
	Use    *api.TaskUse    `json:"use,omitempty"`
	Steps  Steps           `json:"steps"`
	// Refused are the last refusals during the task, the last one first.
	Refused []api.WhyEntry `json:"refused,omitempty"`
}

// StartRequest starts the agent's main command: POST /v1/start.
type StartRequest struct {
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"`
	TTY     bool     `json:"tty"`
	// NoInput gives the command an empty standard input: many programs read an input that is no
	// terminal to its end before they begin. Since version [NoInputVersion].
	NoInput bool `json:"no_input,omitempty"`
	// Banner is written to the log before the command's first output.
	Banner string `json:"banner,omitempty"`
	// Task is the ID of the task that the command performs; empty if it performs none. Since
	// [TaskVersion].
	Task string `json:"task,omitempty"`
	// Stream is the format of the lines that the command prints (package steps): the log gets their
	// text, and the raw log gets the lines as printed. Since [StepsVersion].
	Stream string `json:"stream,omitempty"`
}

// Steps are the steps of the main command's task: GET /v1/steps, since [StepsVersion].
type Steps struct {
	// Task is empty if the main command performs no task.
	Task string `json:"task,omitempty"`
	// Steps are the last steps, Total is the number of all steps.
	Steps  []api.Step      `json:"steps,omitempty"`
	Total  int             `json:"total,omitempty"`
	Report *api.TaskReport `json:"report,omitempty"`
	// Raw is the range of its output in the raw log; nil if it has no Stream.
	Raw *api.OutputRange `json:"raw,omitempty"`
}

// Screen is what the main command's terminal shows: GET /v1/screen?lines=N, since
// [ScreenVersion].
type Screen struct {
	// Terminal is false for a command without one: the log then has all of its output.
	Terminal bool `json:"terminal"`
	Rows     int  `json:"rows,omitempty"`
	Cols     int  `json:"cols,omitempty"`
	// Lines are the last lines of the scroll-back and the screen, with SGR
	// sequences. All is false if there were more lines than the shim keeps.
	Lines []string `json:"lines,omitempty"`
	All   bool     `json:"all,omitempty"`
	// Begin is the position in the log at the start of the command; -1 if unknown.
	Begin int64 `json:"begin"`
}

// MaxInput bounds an InputRequest's text, in bytes.
const MaxInput = 64 << 10

// InputRequest types Text into the main command, and Enter unless NoEnter is set: POST /v1/input,
// since version 2.
type InputRequest struct {
	Text    string `json:"text"`
	NoEnter bool   `json:"no_enter,omitempty"`
}

// StopRequest ends the main command: POST /v1/stop.
type StopRequest struct {
	Grace setting.Duration `json:"grace"`
}

// ExecRequest is the body of POST /v1/exec. The connection is then upgraded
// to frames.
type ExecRequest struct {
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"`
	TTY     bool     `json:"tty"`
	Rows    uint16   `json:"rows,omitempty"`
	Cols    uint16   `json:"cols,omitempty"`
	// Stdin is set if the client sends input.
	Stdin bool `json:"stdin"`
	// Session, if not "", is sent as SessionHeader.
	Session string `json:"-"`
}

// SessionHeader is the header of exec that names the session of the agent that is meant. Another agent
// can have got the name, and with it the socket. Older shims do not read it.
const SessionHeader = "Polis-Session"

// OwnHeader is the header of exec that says that polisd runs the command for the agent, not a person. Older shims do not
// read it.
const OwnHeader = "Polis-Own"

// Upgrade is the protocol name in the Upgrade header of exec and attach.
const Upgrade = "polis-frames/1"

// PortRequest adds a port map: POST /v1/ports. External must be set. A request for an existing map
// clears Auto.
type PortRequest struct {
	Internal int    `json:"internal"`
	External int    `json:"external"`
	Bind     string `json:"bind"`
	Auto     bool   `json:"auto,omitempty"`
	// Protocol is "tcp" (or "") or "udp"; since UDPVersion.
	Protocol string `json:"protocol,omitempty"`
}
