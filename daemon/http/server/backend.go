package server

import (
	"context"
	"io"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/store/events"
)

// Backend is what the API does its work with.
type Backend interface {
	Status(ctx context.Context) api.DaemonStatus
	Health(ctx context.Context) error
	Doctor(ctx context.Context) (api.DoctorReport, error)
	Up(ctx context.Context, req api.UpRequest, progress func(string)) (api.UpResponse, error)
	Down(ctx context.Context, workspace string, req api.DownRequest) (api.DownResponse, error)
	// ProjectChecks describes the project of a workspace.
	ProjectChecks(ctx context.Context, workspace string) (api.ProjectReport, error)
	// WorkspaceName returns the name of the workspace that is named, or is at a path.
	WorkspaceName(nameOrPath string) (string, error)
	MoveWorkspace(ctx context.Context, workspace string, req api.MoveRequest) (api.Workspace, error)
	Workspaces() []api.Workspace
	Types() (map[string]config.BaseType, error)
	// Metrics returns all metrics as Prometheus text.
	Metrics(ctx context.Context) ([]byte, error)
	Top(ctx context.Context) (api.Top, error)
	Locks(workspace string) []api.Lock
	// Remote does what an agent's git wants of a remote of the project, if it may.
	Remote(ctx context.Context, name string, req api.RemoteRequest, approved string, say func(string)) (api.RemoteResponse, error)
	// RemoteQuestion is the question that must be approved before Remote; nil for none.
	RemoteQuestion(ctx context.Context, name string, req api.RemoteRequest) (*api.RemoteQuestion, error)
	// Maintain keeps a workspace's repository small; Maintenance says when and how it last was.
	Maintain(ctx context.Context, req api.MaintenanceRequest, say func(string)) (api.MaintenanceReport, error)
	Maintenance(workspace string) ([]api.MaintenanceReport, error)
	// Patrol does a cycle of the patrol now; LastPatrol is the last one.
	Patrol(ctx context.Context, req api.PatrolRequest) (api.PatrolReport, error)
	LastPatrol() api.PatrolReport
	// Cases are what the patrol left for a person, oldest first; all: the resolved ones too.
	Cases(workspace string, all bool) ([]api.Case, error)
	Case(id string) (api.Case, error)
	ResolveCase(by, id string, req api.ResolveRequest) (api.Case, error)
	// Usage sums what agents used of model services, by one of api.UsageBy, since a day.
	Usage(ctx context.Context, workspace, by, since string) ([]api.ModelUse, error)
	Conflicts(ctx context.Context, workspace string) ([]api.Conflicts, error)
	Queues(workspace string) ([]api.Queue, error)
	Dequeue(ctx context.Context, agent string) error
	Prioritize(ctx context.Context, agent string, priority int) error
	// Rework gives the task to resolve an agent's failed merge.
	Rework(ctx context.Context, agent string, req api.ReworkRequest) (api.MergeSignal, error)
	// CheckLog returns a check of an agent's branch, CheckOutput all that it printed, with its size in bytes.
	CheckLog(ctx context.Context, req api.CheckLogRequest) (api.CheckLog, error)
	CheckOutput(ctx context.Context, req api.CheckLogRequest) (io.ReadCloser, int64, error)
	GC(ctx context.Context, req api.GCRequest) (api.GCResponse, error)
	Lock(ctx context.Context, by string, req api.LockRequest) (api.Lock, error)
	Unlock(ctx context.Context, by string, req api.LockRequest) error
	Agents
	Approvals
	Workers
	Races
	Replays
	Setups
	Snapshots
	Receipts
	Policies
	Events() *events.Hub
}

// Approvals is the part of the Backend that is about questions of agents.
type Approvals interface {
	Approvals(ctx context.Context, workspace string) ([]api.Approval, error)
	Approval(ctx context.Context, id string) (api.Approval, error)
	// AnswerApproval returns when the agent's shim has taken the answer.
	AnswerApproval(ctx context.Context, by, id string, req api.AnswerRequest) (api.Approval, error)
	ApprovalRules(workspace string) ([]api.ApprovalRule, error)
	RevokeApproval(id string) (api.ApprovalRule, error)
	Roles() []api.Role
	Role(name string) (api.Role, error)
	// CheckRole asks nobody.
	CheckRole(req api.RoleCheck) (api.RoleDecision, error)
}

// Workers is the part of the Backend that is about workers. parent is the agent whose workers they
// are; "" is a person, who has all of them.
type Workers interface {
	Delegate(ctx context.Context, parent string, req api.DelegateRequest) (api.Worker, error)
	Workers(ctx context.Context, parent, workspace string) ([]api.Worker, error)
	// Worker waits until the worker's result is final, or ctx ends; the worker as it then is
	// is no error.
	Worker(ctx context.Context, parent, id string, wait bool) (api.Worker, error)
	CancelWorker(ctx context.Context, parent, id string) (api.Worker, error)
	CleanupWorkers(ctx context.Context, parent string, req api.CleanupRequest) (api.CleanupResponse, error)
}

// Races is the part of the Backend that is about races.
type Races interface {
	Race(ctx context.Context, req api.RaceRequest) (api.Race, error)
	Races(workspace string) ([]api.Race, error)
	// GetRace waits until the race has ended or waits for a choice, or ctx ends; the race as it then
	// is is no error.
	GetRace(ctx context.Context, id string, wait bool) (api.Race, error)
	CancelRace(id string) (api.Race, error)
	ChooseRace(id string, req api.ChooseRequest) (api.Race, error)
}

// Replays is the part of the Backend that is about replays of recorded tasks.
type Replays interface {
	Replay(ctx context.Context, task string, req api.ReplayRequest) (api.Replay, error)
	// Replayed waits until the replay has ended, or ctx ends; the replay as it then is is no error.
	Replayed(ctx context.Context, agent string, wait bool) (api.Replay, error)
}

// Setups is the part of the Backend that is about setup commands.
type Setups interface {
	Setups(ctx context.Context, workspace string) ([]api.Setup, error)
	// RunSetup waits until the command has ended.
	RunSetup(ctx context.Context, req api.SetupRequest, say func(string)) (api.Setup, error)
	SetupLog(workspace string) (api.SetupLog, error)
}

// Receipts is the part of the Backend that is about receipts.
type Receipts interface {
	// Recordable returns an error if what must be recorded is to be refused now; Recorded returns when
	// what was done before is recorded, or after ctx.
	Recordable() error
	Recorded(ctx context.Context)
	Receipts(ctx context.Context, req api.ReceiptsRequest) (api.Receipts, error)
	VerifyReceipts(ctx context.Context, workspace, head string) (api.ReceiptsCheck, error)
	ExportReceipts(ctx context.Context, workspace string, to io.Writer) error
	Provenance(ctx context.Context, workspace string, entry uint64, to io.Writer) error
	ReplayReceipts(ctx context.Context, workspace string, entry uint64) (api.ReceiptsReplay, error)
	ReplayTree(ctx context.Context, workspace string, entry uint64, branch string, to io.Writer) error
	// Who returns who read or wrote a path, and Blame of which agents the lines of a file are; "" for the
	// agent is the target branch.
	Who(ctx context.Context, req api.WhoRequest) (api.Who, error)
	Blame(ctx context.Context, workspace, agent, path string) (api.Blame, error)
}

// Policies is the part of the Backend that is about what agents in record mode used.
type Policies interface {
	LearnPolicy(ctx context.Context, req api.PolicyRequest) (api.LearnedPolicy, error)
	CheckPolicy(ctx context.Context, req api.PolicyRequest) (api.PolicyCheck, error)
}

// Snapshots is the part of the Backend that is about snapshots of agents' files.
type Snapshots interface {
	CreateSnapshot(ctx context.Context, agent string, req api.SnapshotRequest) (api.Snapshot, error)
	Snapshots(ctx context.Context, workspace, agent string) ([]api.Snapshot, error)
	Snapshot(ctx context.Context, id string) (api.Snapshot, error)
	SnapshotFiles(ctx context.Context, id string) ([]api.SnapshotFile, error)
	SnapshotContent(ctx context.Context, id, path string, to io.Writer) error
	// DiffSnapshot compares with the agent's files now if to is "".
	DiffSnapshot(ctx context.Context, id, to string) (api.SnapshotDiff, error)
	VerifySnapshot(ctx context.Context, id string) (api.SnapshotCheck, error)
	MountSnapshot(ctx context.Context, id string, req api.SnapshotMountRequest) (api.SnapshotMount, error)
	UnmountSnapshot(ctx context.Context, id string, inside bool) (api.SnapshotMount, error)
	CompareSnapshot(ctx context.Context, id, agent string) (api.SnapshotCheck, error)
	Timeline(ctx context.Context, agent string) ([]api.Snapshot, error)
	// DiffTimeline compares two moments of an agent, as RewindRequest.To names them; now if to is "".
	DiffTimeline(ctx context.Context, agent, from, to string) (api.SnapshotDiff, error)
	Checkpoint(ctx context.Context, agent string, req api.CheckpointRequest) (api.Snapshot, error)
	Rewind(ctx context.Context, agent string, req api.RewindRequest) (api.SnapshotRestored, error)
	// OwnTimeline does what an agent wants of its own checkpoints.
	OwnTimeline(ctx context.Context, agent string, req api.TimelineRequest) (api.TimelineResponse, error)
	RestoreSnapshot(ctx context.Context, id string, req api.SnapshotRestoreRequest) (api.SnapshotRestored, error)
	RemoveSnapshot(ctx context.Context, id string) (api.Snapshot, error)
}

// Tasker is the part of the Backend that is about tasks by their ID.
type Tasker interface {
	// AllTasks are the newest of a workspace ("" = all), at most limit.
	AllTasks(workspace string, limit int) ([]api.Task, error)
	// Task waits until the task's result is final, or ctx ends; the task as it then is
	// is no error.
	Task(ctx context.Context, id string, wait bool) (api.Task, error)
	DiffTask(ctx context.Context, id string, opt api.DiffRequest, to io.Writer) error
	CancelTask(ctx context.Context, id string) (api.Task, error)
	RetryTask(ctx context.Context, id string) (api.Task, error)
}

// Agents is the part of the Backend that is about agents.
type Agents interface {
	Add(ctx context.Context, req api.AddRequest) (api.Agent, error)
	Get(ctx context.Context, name string) (api.Agent, error)
	List(ctx context.Context, workspace string) []api.Agent
	Start(ctx context.Context, name string, force bool) (api.Agent, error)
	// BringUp starts the sandbox, and no command in it.
	BringUp(ctx context.Context, name string, force bool) (api.Agent, error)
	Stop(ctx context.Context, name string) (api.Agent, error)
	// Thaw lets the processes of a frozen agent continue.
	Thaw(ctx context.Context, by, name string) (api.Agent, error)
	Run(ctx context.Context, name string, req api.RunRequest) (api.Task, error)
	Send(ctx context.Context, name string, req api.SendRequest) (api.Task, error)
	// Say and Broadcast are called for by.
	Say(ctx context.Context, by, name string, req api.SayRequest) (api.SayResponse, error)
	// Said is what an agent's program wants of the texts that wait for the agent.
	Said(ctx context.Context, name string, req api.SaidRequest) (api.SaidResponse, error)
	Broadcast(ctx context.Context, by string, req api.BroadcastRequest) (api.BroadcastResponse, error)
	// Pull is called for the user with this uid.
	Pull(ctx context.Context, caller uint32, name string, req api.PullRequest) (api.PullResponse, error)
	Set(ctx context.Context, name string, req api.SetRequest) (api.SetResponse, error)
	Remove(ctx context.Context, name string, force, ignored bool) (api.RemoveResponse, error)
	Merge(ctx context.Context, name string, req api.MergeRequest) (api.MergeResponse, error)
	Enqueue(name string, req api.QueueRequest) (api.QueueEntry, error)
	Discard(ctx context.Context, name string, ignored bool) (api.RemoveResponse, error)
	Revert(ctx context.Context, name string, req api.RevertRequest) (api.RevertResponse, error)
	Fork(ctx context.Context, name string, req api.ForkRequest) (api.ForkResponse, error)
	RestoreAgent(ctx context.Context, name string, req api.RestoreRequest) (api.Agent, error)
	Commit(ctx context.Context, name string, req api.CommitRequest) (api.CommitResponse, error)
	Rebase(ctx context.Context, name string) (api.RebaseResponse, error)
	Diff(ctx context.Context, name string, opt api.DiffRequest, to io.Writer) error
	Leftovers(ctx context.Context, name string, end bool) (api.Leftovers, error)
	Why(ctx context.Context, name string) (api.Refusals, error)
	Attach(name string) (api.Attach, error)
	Policy(name string) (api.Policy, error)
	Tasks(name string) ([]api.Task, error)
	Tasker
	LogDir(name string) (string, error)
	// Screen is what the agent's terminal shows; false: the log has it all.
	Screen(ctx context.Context, name string, lines int) (wire.Screen, bool)
	MapPort(ctx context.Context, req api.PortRequest) (api.PortsAdded, error)
	UnmapPort(ctx context.Context, name, protocol string, internal, last int) error
	PortMappings() []api.PortMapping
}
