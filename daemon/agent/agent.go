package agent

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/internal/pinned"
)

// Workspace is the part of a workspace that concerns agents.
type Workspace struct {
	Name    string
	Root    layout.Workspace
	Project string // resolved path of the user's checkout
	Git     bool
	Target  string
	Owner   int // uid of the user's checkout
	UID     int // of the agents' processes and files; never 0
	GID     int
	// AsUser means that the project is a plain directory of root's that agents see, and change, as
	// if they owned it.
	AsUser bool
	// Record is the recorded identity of the project; see Recorded.
	Record pinned.Record
	Repo   Repo
	Queue  Queue // nil without git
	// Removed is what can be restored, oldest first. Guarded by the manager's
	// mutex once the workspace is added.
	Removed []store.Removed
	// Answers are kept for later questions. Guarded as Removed is.
	Answers store.Answers

	links     foundLinks
	answering sync.Mutex  // one change of Answers at a time; before the manager's mutex
	mu        *sync.Mutex // the manager's, once the workspace is added
	manager   *Manager    // likewise
	saving    sync.Mutex
	unsaved   bool // guarded by the manager's mutex
	leaving   bool // likewise; no agent is admitted any more
}

// Recorded returns the recorded identity of the project, which a person can replace.
func (w *Workspace) Recorded() pinned.Record {
	if w.mu != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	return w.Record
}

// Agent is one agent. Fields of Kept and the runtime fields are guarded by the
// manager's mutex; resources get the agent while its op is held and only read.
type Agent struct {
	WS   *Workspace
	Type config.BaseType

	Kept store.Agent
	// programSince is when its program, or that of its task, was started; zero if that is not known.
	programSince time.Time
	// Network is the result of the network resource, for the shim's spec.
	Network Network
	// Identity is that of the owner's commits in the project; what is not known is empty.
	Identity git.Idents
	// Saved is set when its work is saved and cannot change any more.
	Saved *Saved
	// TrashDir is the trash directory of its worktree, if the whole worktree was kept.
	TrashDir string
	// Filtered is the directory of the objects that its rules allow to read, or "" if they
	// withhold none of the shared objects.
	Filtered string
	// Audited: what it opens is recorded, from this start on.
	Audited bool
	// LastTask is the ID of its last task before this start; "" if there was none.
	LastTask string
	// Remotes are the remotes of the project, as agents see them.
	Remotes []Remote
	// LFS is the directory of the project's LFS objects, which the agent may read; "" if there is none.
	LFS string
	// Modules are directories of the project with objects of submodules that the agent borrows, by where it finds them.
	Modules map[string]string
	// Notices are for the person who adds it.
	Notices []string
	// Upstreams are what branches of the project follow, for an agent that is being made.
	Upstreams []Upstream
	// Hooks are the git hooks of the project when the agent was started; nil: it has none.
	Hooks  atomic.Pointer[wire.GitHooks]
	pid    int
	up     bool
	coming bool // is starting, and counts as if it were up
	// leaving is set while polis itself stops the shim, so that the end of the shim does not count
	// as a crash.
	leaving bool
	// foreign is set for a shim of a version that this daemon does not support. The shim is not
	// touched, and is replaced at the next start.
	foreign bool
	hung    string // why its shim was killed, if it hung
	follow  func() // ends the goroutine that follows the shim's events
	last    uint64 // newest processed event of the shim; 0: none
	// exiting is set from the end of a task until its program has exited.
	exiting *exiting

	// binds contains the addresses of the active port maps.
	binds map[PortKey]string

	op opLock
	// ending is held while a task's end is recorded: its event and the start of a program that ends
	// at once both find it. It is taken after op, and before the manager's mutex.
	ending sync.Mutex
	// sending is held while its shim gets its services. It is taken before the manager's mutex, and no other lock is.
	sending sync.Mutex
	// mapping is held while the agent's port maps change. It is taken after op if both are needed.
	mapping sync.Mutex
}

// Network is an agent's network namespace and address.
type Network struct {
	NetNS   string // nsfs file
	Address string
	// Table and link of its gate (netbridge.Endpoint).
	Table, Link string
}

// Remote is a remote repository of the project. URL contains no secret.
type Remote struct{ Name, URL string }

// Upstream is the branch of a remote, by its full name there, that a branch follows.
type Upstream struct{ Branch, Remote, Ref string }

// Name returns the agent's name.
func (a *Agent) Name() string { return a.Kept.Name }

// Copy returns a copy of the agent's stored state. It is for callers that hold op but not the
// manager's mutex: refs and port maps change without op.
func (a *Agent) Copy() store.Agent {
	if a.WS.mu != nil {
		a.WS.mu.Lock()
		defer a.WS.mu.Unlock()
	}
	k := a.Kept
	k.PortMappings, k.OwnedRefs = slices.Clone(k.PortMappings), slices.Clone(k.OwnedRefs)
	k.ApprovedWrites = slices.Clone(k.ApprovedWrites)
	return k
}

// Worktree returns the mount point of the view on the host.
func (a *Agent) Worktree() string { return a.WS.Root.Worktree(a.Kept.Name) }

func (a *Agent) view(bind string) api.Agent {
	k := a.Kept
	v := api.Agent{Name: k.Name, BaseType: k.BaseType, Workspace: a.WS.Name, Status: k.Status, StatusReason: k.StatusReason,
		Branch: k.Branch, Role: k.Role, Ephemeral: k.Ephemeral, ReadOnly: k.ReadOnly, Sparse: k.Sparse.Clone(), Command: k.Command, StartCommand: a.Type.StartCommand(k.Command), TaskCommand: a.Type.TaskCommand(k.Command), MemoryLimitMB: k.MemoryLimitMB, Policy: k.Policy, Recording: k.Recording, LeftoversRule: k.Leftovers,
		WorktreePath: a.Worktree(), ProjectPath: a.WS.Project, TrashedWorktree: k.Trashed, MergeStatus: k.MergeStatus, MergeCommitSHA: k.MergeCommitSHA,
		CgroupPath: k.CgroupPath, CreatedAt: k.CreatedAt, Address: a.Network.Address, PID: a.pid, PortMappings: []api.PortMapping{}}
	if k.Worker != nil {
		v.Worker, v.Parent = true, k.Worker.Parent
	}
	for _, p := range k.PortMappings {
		v.PortMappings = append(v.PortMappings, a.mapView(p, bind))
	}
	return v
}
