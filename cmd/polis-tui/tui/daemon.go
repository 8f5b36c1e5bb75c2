package tui

import (
	"context"
	"io"
	"time"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// Daemon is what the screen needs of polisd; *client.Client is one.
type Daemon interface {
	Health(ctx context.Context) error
	Agents(ctx context.Context, workspace string) ([]api.Agent, error)
	Locks(ctx context.Context) ([]api.Lock, error)
	Queues(ctx context.Context, workspace string) ([]api.Queue, error)
	Events(ctx context.Context, q client.EventQuery, fn func(api.Event) error) error
	Logs(ctx context.Context, name string, lines int, follow bool) (io.ReadCloser, error)
	Tasks(ctx context.Context, name string) ([]api.Task, error)
	Task(ctx context.Context, id string, wait time.Duration) (api.Task, error)
	TaskDiff(ctx context.Context, id string, stat bool) (io.ReadCloser, error)
	TaskOutput(ctx context.Context, id string) (io.ReadCloser, error)
	CancelTask(ctx context.Context, id string) (api.Task, error)
	RetryTask(ctx context.Context, id string) (api.Task, error)
	Diff(ctx context.Context, name string, req api.DiffRequest) (io.ReadCloser, error)

	Approvals(ctx context.Context, workspace string) ([]api.Approval, error)
	Approval(ctx context.Context, id string) (api.Approval, error)
	Answer(ctx context.Context, id string, req api.AnswerRequest) (api.Approval, error)

	Cases(ctx context.Context, workspace string, all bool) ([]api.Case, error)
	ResolveCase(ctx context.Context, id string, req api.ResolveRequest) (api.Case, error)
	Thaw(ctx context.Context, name string) (api.Agent, error)
	Rewind(ctx context.Context, name string, req api.RewindRequest) (api.SnapshotRestored, error)

	CheckLog(ctx context.Context, req api.CheckLogRequest) (api.CheckLog, error)
	Leftovers(ctx context.Context, name string) (api.Leftovers, error)

	EndLeftovers(ctx context.Context, name string) (api.Leftovers, error)
	BringUp(ctx context.Context, name string) (api.Agent, error)
	Stop(ctx context.Context, name string) (api.Agent, error)
	Run(ctx context.Context, name string, req api.RunRequest) (api.Task, error)
	Say(ctx context.Context, name string, req api.SayRequest) (api.SayResponse, error)
	Broadcast(ctx context.Context, req api.BroadcastRequest) (api.BroadcastResponse, error)
	Commit(ctx context.Context, name string, req api.CommitRequest) (api.CommitResponse, error)
	Merge(ctx context.Context, name string, req api.MergeRequest) (api.MergeResponse, error)
	Revert(ctx context.Context, name string, req api.RevertRequest) (api.RevertResponse, error)
	Discard(ctx context.Context, name string, ignored bool) (api.RemoveResponse, error)
}

// How long calls may take. A merge waits for its turn and its check.
const (
	lookLimit   = 10 * time.Second
	actionLimit = time.Minute
	mergeLimit  = 15 * time.Minute
	// A stream without events may be dead: it is opened again, from
	// where it was, after this time.
	streamLimit = 5 * time.Minute
)

// What is kept.
const (
	maxEvents    = 500
	maxLogLines  = 1000
	maxDiffLines = 20000
	maxLine      = 2000    // bytes of one line
	maxRead      = 4 << 20 // bytes of a log or a diff
	maxInput     = 16 << 10
)
