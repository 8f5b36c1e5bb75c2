package agent

import (
	"context"
	"io"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/patrol/cleanup"
	"polis/daemon/shim/dial"
	"polis/daemon/store"
)

// Resource is one kernel or git object that an agent needs. Its name is derived from the agent's
// name. Ensure and Remove are idempotent.
type Resource interface {
	Name() string
	Ensure(ctx context.Context, a *Agent) error
	Remove(ctx context.Context, a *Agent) error
	// List returns the agents for which the object exists now.
	List(ctx context.Context) ([]string, error)
}

// Ephemeral is a Resource that only a running shim needs: it is removed whenever the shim is.
type Ephemeral interface {
	Resource
	Ephemeral()
}

// Shim is an agent's shim, as the manager uses it.
type Shim interface {
	Status(ctx context.Context) (wire.Status, error)
	Start(ctx context.Context, r wire.StartRequest) error
	Input(ctx context.Context, r wire.InputRequest) error
	// Screen is only for shims of wire.ScreenVersion and later.
	Screen(ctx context.Context, lines int) (wire.Screen, error)
	// Steps is only for shims of wire.StepsVersion and later.
	Steps(ctx context.Context) (wire.Steps, error)
	// Leftovers is only for shims of wire.LeftoversVersion and later.
	Leftovers(ctx context.Context, end bool) (api.Leftovers, error)
	// Approvals, Approval and Answer are only for shims of wire.ApprovalsVersion and later.
	Approvals(ctx context.Context) ([]api.Approval, error)
	Approval(ctx context.Context, id string) (api.Approval, error)
	Answer(ctx context.Context, id string, r wire.AnswerRequest) (wire.Answered, error)
	StopMain(ctx context.Context, grace time.Duration) error
	// Freeze and Thaw are only for shims of wire.FreezeVersion and later.
	Freeze(ctx context.Context, r wire.FreezeRequest) error
	Thaw(ctx context.Context, r wire.ThawRequest) error
	// Set is only for shims of wire.SettingsVersion and later.
	Set(ctx context.Context, r wire.SettingsRequest) error
	// PauseModel is only for shims of wire.ModelsVersion and later.
	PauseModel(ctx context.Context, r wire.PauseRequest) error
	// Replayed is only for shims of wire.RecordVersion and later.
	Replayed(ctx context.Context) (wire.Replayed, error)
	AddPort(ctx context.Context, r wire.PortRequest) error
	RemovePort(ctx context.Context, protocol string, internal int) error
	Why(ctx context.Context) ([]api.WhyEntry, error)
	Invalidate(ctx context.Context) error
	// Changes is only for shims of wire.ChangesVersion and later.
	Changes(ctx context.Context, r wire.ChangesRequest) (wire.Changes, error)
	// Mount and Unmount are only for shims of wire.SnapshotsVersion and later.
	Mount(ctx context.Context, r wire.MountRequest) (wire.Mounted, error)
	Unmount(ctx context.Context, id string, inside bool) (wire.Mounted, error)
	// RestoreGate and Blocked are only for shims of wire.GateVersion and later.
	RestoreGate(ctx context.Context) error
	Blocked(ctx context.Context, r wire.BlockedRequest) error
	// Remount is only for shims of wire.RemountVersion and later.
	Remount(ctx context.Context) (wire.Remounted, error)
	// ReleaseIdle releases the leases on files that nothing uses.
	ReleaseIdle(ctx context.Context) error
	Events(ctx context.Context, since uint64, f func(api.Event)) error
	// Run runs a command in the sandbox to its end.
	Run(ctx context.Context, r wire.ExecRequest) (dial.Result, error)
	Close()
}

// Shims starts, finds and stops shims.
type Shims interface {
	// Ensure starts the agent's shim and returns when it is ready.
	Ensure(ctx context.Context, a *Agent) error
	// Remove stops the shim and cleans up, even if the shim is dead.
	Remove(ctx context.Context, a *Agent) error
	Alive(ctx context.Context, a *Agent) (bool, error)
	Dial(agent string) Shim
	Socket(agent string) string
	List(ctx context.Context) ([]string, error)
	// Spec returns the spec of the agent's shim, if it was started and its directory still exists.
	Spec(agent string) (wire.Spec, bool)
	// Settings returns the settings that an agent should have, its own and the configured ones.
	// Note writes them, and the agent's own variables, into the spec of a running shim.
	Settings(a *Agent) wire.Settings
	Note(a *Agent, s wire.Settings) error
	// RefreshHome brings the files of the owner's home that an agent has copies of up to date,
	// before a program of the agent starts. The agent is up.
	RefreshHome(a *Agent) error
	// SendModels gives the shim of an agent that is up the model services of the present configuration,
	// with their keys.
	SendModels(ctx context.Context, a *Agent) error
	// KeyRefused records that a service refused the key of an agent. It reports whether SendModels gets
	// another one. KeysExpired is sent to when agents need SendModels for new keys.
	KeyRefused(service string) bool
	KeysExpired() <-chan struct{}
	// ModelPaused records that a model service asked to wait. It reports whether other agents do not
	// know it yet.
	ModelPaused(service, agent string, until time.Time) bool
	// ModelTurns returns how long after the pause each of these agents may begin.
	ModelTurns(service string, agents []string) map[string]time.Duration
	// GrantModels grants an agent its next part of the budget for models that its role shares. RaiseModels raises a bound of
	// that budget on a day, in tokens or units of the currency.
	GrantModels(ctx context.Context, a *Agent) error
	RaiseModels(ctx context.Context, role, bound, day string, to float64) error
	// ModelsSpent returns why the agents of a family can have no further worker: they have used the budget
	// of a's role for model services. It is "" if something is left, or there is no budget.
	ModelsSpent(a *Agent, family []Relative) string
	// Reason returns the last error of a shim that has ended, if any.
	Reason(a *Agent) string
	// SaveCursor stores the number of the last processed event of the agent's shim. LoadCursor
	// reads it, also in a later daemon; ok is false if no number was stored since the shim
	// started.
	SaveCursor(agent string, event uint64) error
	LoadCursor(agent string) (event uint64, ok bool)
}

// WorktreeStatus is the git status of an agent's work.
type WorktreeStatus struct {
	Dirty    int      // changed and untracked files that are not ignored
	Paths    []string // some of them
	Unmerged int      // commits that are not in the target branch
	// Nested describes the work in repositories inside the worktree, such as submodules; each counts in Dirty.
	Nested []string
	// Elsewhere are those that a merge of the agent would not contain.
	Elsewhere []api.BranchWork
	// Worktrees are the git worktrees that the agent made itself.
	Worktrees []string
	// Private are some of the refs of its tools, which no merge contains.
	Private []string
}

// Work is what an agent has done since a commit.
type Work struct {
	Head    string
	Commits int // commits in neither the target nor the commit
	Dirty   int // files, as in WorktreeStatus
	// Elsewhere is as in WorktreeStatus.
	Elsewhere []api.BranchWork
}

// Reverted is a merge that was reverted, or would be.
type Reverted struct {
	Commit  string
	Paths   []string
	Later   int    // number of later merges
	Project string // the state of the user's checkout
	Note    string
}

// Saved is saved work. Both fields are empty if there was none.
type Saved struct {
	Ref  string // empty if the target contains all of it
	Head string // the commit it is based on
	// Whole, if not nil, is why a ref cannot contain all of it (repositories inside, an index that
	// git cannot read): the directory itself must be kept.
	Whole error
	// Copied: there is no ref, but a copy of the files for the new agent.
	Copied bool
}

// Snapshot is the work of an agent at one moment.
type Snapshot struct {
	Ref  string // as in Saved
	Head string
	// Copied: the files were copied for the new agent, and there is no ref.
	Copied bool
	// LeftOut are directories and files that it cannot contain.
	LeftOut []string
}

// Preview is what a merge would change in the target.
type Preview struct {
	Head      string // the commit that is merged
	Branch    string // the branch that has it, or the agent's
	Elsewhere []api.BranchWork
	Paths     []string
	Protected []api.ProtectedPath
}

// Forwarded is a branch that was moved to the target's commit, or was not.
type Forwarded struct {
	// From and To are the commits before and after. Kept is the reason why they are equal, if that is not
	// that the branch is where the target is.
	From, To, Kept string
	// Inside is the commit to which git in the agent can move the branch and the files, which cannot be
	// changed below the view; else "".
	Inside string
}

// Repo is the git side of a workspace.
type Repo interface {
	Cones
	Status(ctx context.Context, a *Agent) (WorktreeStatus, error)
	// Head returns the commit of the agent's worktree; empty if there is none.
	Head(ctx context.Context, a *Agent) (string, error)
	// Refresh brings what the project has new to an agent that is up: what its owner's git ignores. It reports whether
	// the view has to show something else.
	Refresh(ctx context.Context, a *Agent) (changed bool, err error)
	// Forward fetches the user's commits, and moves the branch and the files of an agent without work
	// of its own to the target's commit, below its view.
	Forward(ctx context.Context, a *Agent) (Forwarded, error)
	// Settle makes git of an agent without a task compare the files that its rules ask about by their times only, as far as they
	// are unchanged, as at its start.
	Settle(ctx context.Context, a *Agent) error
	// Measure returns what of the agent's work is only there. If the target lacks commits of it,
	// every remote of the project is queried, with a time limit.
	Measure(ctx context.Context, a *Agent) cleanup.Measured
	// Since returns what the agent has done since base.
	Since(ctx context.Context, a *Agent, base string) (Work, error)
	// Save puts everything unsaved under a trash ref, with ignored also ignored files.
	Save(ctx context.Context, a *Agent, ignored bool) (Saved, error)
	// Snapshot saves all files, the index and the commits of an agent that does not run, or is
	// frozen, for a new agent. Restore makes that agent of it. DropSnapshot deletes it.
	Snapshot(ctx context.Context, a *Agent, forNew string, ignored bool) (Snapshot, error)
	DropSnapshot(ctx context.Context, forNew, ref string) error
	// Restore restores the agent's worktree and branch as they were saved.
	Restore(ctx context.Context, a *Agent, s Saved) error
	// Newest is the newest saved work of an agent, and its branch.
	Newest(ctx context.Context, agent string) (s Saved, branch string, err error)
	// TargetFiles calls each for the files of the target branch, until it returns an error.
	TargetFiles(ctx context.Context, each func(path string) error) error
	// HasBranch reports whether there is a branch of this name.
	HasBranch(ctx context.Context, branch string) (bool, error)
	// DropBranch deletes the agent's branch if all of it is in the target branch
	// or reachable from kept.
	DropBranch(ctx context.Context, a *Agent, kept string) error
	// DryMerge returns what a merge would change, with the errors it would have.
	DryMerge(ctx context.Context, a *Agent) (Preview, error)
	// ToSign returns the merge that a person signs, StoreSigned the name of the commit that was signed.
	ToSign(ctx context.Context, a *Agent, req api.MergeRequest) (api.ToSign, error)
	StoreSigned(ctx context.Context, a *Agent, raw []byte) (string, error)
	// Revert reverts a merge; a dry one only returns what it would do.
	Revert(ctx context.Context, a *Agent, commit string, dry bool) (Reverted, error)
	// Sync fetches the user's own commits on the target.
	Sync(ctx context.Context) error
	// Tree returns the ID of a commit's tree.
	Tree(ctx context.Context, a *Agent, commit string) (string, error)
	// DiffCommits writes what is different between two commits of the agent's.
	DiffCommits(ctx context.Context, a *Agent, base, head string, opt api.DiffRequest, to io.Writer) error
	// Diff writes what the agent changed since its branch left the target.
	Diff(ctx context.Context, a *Agent, opt api.DiffRequest, to io.Writer) error
}

// Queue is a workspace's merge queue.
type Queue interface {
	Add(e api.QueueEntry) (api.QueueEntry, error)
	// Submit is Add; wait returns the outcome of the entry.
	Submit(e api.QueueEntry) (wait func(context.Context) (api.QueueOutcome, error), err error)
	Remove(agent string) (bool, error)
	// Waits reports whether the agent waits to be merged, or is being merged.
	Waits(agent string) bool
	// Settled waits until no merge of the agent is half done: the target moved, the outcome not recorded.
	Settled(ctx context.Context, agent string) error
}

// Locks is what the manager needs of the lease table.
type Locks interface {
	DropAgent(agent string)
	// ReleaseMerge releases what the agent holds until its merge.
	ReleaseMerge(agent string)
}

// PortKey is a port of an agent.
type PortKey struct {
	Agent    string
	Protocol string // api.ProtoTCP or api.ProtoUDP
	Internal int
}

// PortAllocator allocates external ports, and remembers their previous owners.
type PortAllocator interface {
	// Take reserves n consecutive external ports for n consecutive ports from k on, and returns
	// the first: want, or what k had before, or the next that are free at the host's address
	// bind. want may be 0.
	Take(ctx context.Context, k PortKey, bind string, n, want int) (first int, err error)
	// Adopt takes a port that is k's already.
	Adopt(k PortKey, external int) error
	// Release releases k's port; Forget also deletes the record of it.
	Release(k PortKey)
	Forget(k PortKey)
	ForgetAgent(agent string)
	// Remember records what k had before.
	Remember(k PortKey, external int)
}

// Saver writes the state of a workspace.
type Saver interface {
	Save(workspace string, agents []store.Agent, removed []store.Removed) error
}
