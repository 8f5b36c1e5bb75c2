package layout

import (
	"path/filepath"
	"strings"
)

// Workspace is the root directory of a workspace.
type Workspace string

// Project is the user's own checkout, or a link to it.
func (w Workspace) Project() string { return filepath.Join(string(w), "project") }

// Dir is where polis keeps everything that belongs to the workspace.
func (w Workspace) Dir() string { return filepath.Join(string(w), ".polis") }

// ProjectRecord is the recorded identity of the project (package pinned).
func (w Workspace) ProjectRecord() string { return filepath.Join(w.Dir(), "project.json") }

// ProjectRefs is the record of the refs of the project that were brought to the shared repository.
func (w Workspace) ProjectRefs() string { return filepath.Join(w.Dir(), "project-refs.json") }

// Bare is the shared repository.
func (w Workspace) Bare() string { return filepath.Join(w.Dir(), "bare-repo.git") }

// Internal is the repository with the trash; no agent sees it.
func (w Workspace) Internal() string { return filepath.Join(w.Dir(), "internal.git") }

// Published is where an agent's git finds the objects of the shared repository.
func (w Workspace) Published() string { return PublishedObjects(w.Dir()) }

// PublishedObjects is Published for the directory of the workspace that polis has.
func PublishedObjects(dir string) string { return filepath.Join(dir, "published") }

// LFSObjects is where an agent's git-lfs finds the objects of the project: beside the directory of the shared objects of
// git, where git-lfs looks for them.
func (w Workspace) LFSObjects() string { return filepath.Join(w.Dir(), "lfs", "objects") }

// AskedObjects is where the git of an agent finds the names of objects that it may ask for. On the host the
// directory is empty.
func AskedObjects(dir string) string { return filepath.Join(dir, "asked") }

// Filtered holds those shared objects that rules for reading leave, once for each
// set of rules.
func (w Workspace) Filtered() string { return filepath.Join(w.Dir(), "filtered") }

// Worktrees holds one worktree per agent.
func (w Workspace) Worktrees() string { return filepath.Join(w.Dir(), "worktrees") }

// Worktree is an agent's worktree; while the agent has a shim, its view is
// mounted here.
func (w Workspace) Worktree(agent string) string { return filepath.Join(w.Worktrees(), agent) }

// Bases holds the base trees that agents share (package base).
func (w Workspace) Bases() string { return filepath.Join(w.Dir(), "bases") }

// Layers is the directory of what belongs to a worktree that is a base tree with the agent's
// changes above it. The changes themselves are in Worktree.
func (w Workspace) Layers(agent string) string { return filepath.Join(w.Dir(), "layers", agent) }

// LayersBase is the file that names the base; it exists if and only if the worktree has layers.
func (w Workspace) LayersBase(agent string) string { return filepath.Join(w.Layers(agent), "base") }

// LayersSetup is the file that names the files which the setup command made for the worktree (package
// setup); it is missing if there are none.
func (w Workspace) LayersSetup(agent string) string { return filepath.Join(w.Layers(agent), "setup") }

// LayersWork is the work directory of the overlay.
func (w Workspace) LayersWork(agent string) string { return filepath.Join(w.Layers(agent), "work") }

// LayersMerged is where the overlay is mounted, below the view.
func (w Workspace) LayersMerged(agent string) string { return filepath.Join(w.Layers(agent), "merged") }

// LayersAbove is a file with the path of the base tree and, after a NUL, that of the setup files, if any. It exists if and only if the agent's shim, at
// its last start, was to mount the overlay above the view.
func (w Workspace) LayersAbove(agent string) string { return filepath.Join(w.Layers(agent), "above") }

// LayersCopy is a copy of another agent's changes that becomes the worktree of a fork.
func (w Workspace) LayersCopy(agent string) string { return filepath.Join(w.Layers(agent), "copy") }

// Privates holds one directory per agent.
func (w Workspace) Privates() string { return filepath.Join(w.Dir(), "private") }

// Private is the agent's own copy of what git shares (configuration, hooks, stash),
// and the objects that no ref leads to.
func (w Workspace) Private(agent string) string { return filepath.Join(w.Privates(), agent) }

// Home is the directory the sandbox sees as $HOME.
func (w Workspace) Home(agent string) string { return filepath.Join(w.Dir(), "homes", agent) }

// Copied is the file that records which files of the agent's home were copied from the owner's.
func (w Workspace) Copied(agent string) string { return w.Home(agent) + ".copied" }

// Scratch is the directory the sandbox sees as /var/tmp.
func (w Workspace) Scratch(agent string) string { return filepath.Join(w.Dir(), "scratch", agent) }

// Overlay keeps what an agent changed of the files it shares with others.
func (w Workspace) Overlay(agent string) string { return filepath.Join(w.Dir(), "overlays", agent) }

// Store is the content of the packages that agents installed.
func (w Workspace) Store() string { return filepath.Join(w.Dir(), "store") }

// LogBase is the extended attribute of an output log that holds how many bytes
// of it came before the file, in decimal digits.
const LogBase = "user.polis.log-base"

// Logs holds an agent's output and task log.
func (w Workspace) Logs(agent string) string { return filepath.Join(w.Dir(), "logs", agent) }

// Tracked is the set of paths that the target or an agent's branch tracks.
func (w Workspace) Tracked() string { return filepath.Join(w.Dir(), "tracked") }

// Tries is where the objects of merges that are only tried live for a moment.
func (w Workspace) Tries() string { return filepath.Join(w.Dir(), "tries") }

// Maintained is the file that records when maintenance was last done, and what it did.
func (w Workspace) Maintained() string { return filepath.Join(w.Dir(), "maintained.json") }

// CheckUser stands for a check among the agents that use what the setup command made. No agent has
// that name.
const CheckUser = "polis.check"

// CheckPrefix begins the names of the shims that run checks (package check). No
// agent can have such a name.
const CheckPrefix = "polis-check-"

// SetupPrefix begins the names of the shims that run setup commands (package setup). No agent can
// have such a name.
const SetupPrefix = "polis-setup-"

// Setups has what setup commands made, for worktrees that share base trees; only root can search it.
func (w Workspace) Setups() string { return filepath.Join(w.Dir(), "setups") }

// SetupLogs has what the last setup commands printed.
func (w Workspace) SetupLogs() string { return filepath.Join(w.Dir(), "setup-logs") }

// Check is where the files of a merge result are while they are checked.
func (w Workspace) Check() string { return filepath.Join(w.Dir(), "check") }

// CheckLogs holds what the last checks printed.
func (w Workspace) CheckLogs() string { return filepath.Join(w.Dir(), "check-logs") }

// Snapshots holds the snapshots of agents' files, and the contents they need (package timeline).
func (w Workspace) Snapshots() string { return filepath.Join(w.Dir(), "snapshots") }

// Answers is the file of the answers to agents' questions that are remembered.
func (w Workspace) Answers() string { return filepath.Join(w.Dir(), "answers.json") }

// State is the one file of what neither the kernel nor git records.
func (w Workspace) State() string { return filepath.Join(w.Dir(), "state.json") }

// Owner is the lock file of the polisd that has the workspace open.
func (w Workspace) Owner() string { return filepath.Join(w.Dir(), "owner") }

// WorkspacesLock is the lock file of the polisd whose workspaces_dir dir is.
func WorkspacesLock(dir string) string { return filepath.Join(dir, "polisd.lock") }

// Cases is the file of the patrol's cases, of the polisd whose workspaces_dir dir is.
func Cases(dir string) string { return filepath.Join(dir, "cases.json") }

// SharedBudgets is the file of what agents were granted of the budgets that their roles share, of the polisd whose
// workspaces_dir dir is.
func SharedBudgets(dir string) string { return filepath.Join(dir, "shared-budgets.json") }

// Receipts is the directory of a workspace's receipts, of the polisd whose workspaces_dir dir is. No
// workspace can have a name that begins with a dot.
func Receipts(dir, workspace string) string { return filepath.Join(dir, ".receipts", workspace) }

// Run is the run directory of one polisd; nothing in it matters after a reboot.
type Run string

// Socket is the admin API.
func (r Run) Socket() string { return filepath.Join(string(r), "polisd.sock") }

// LockSocket is where shims reach lockd.
func (r Run) LockSocket() string { return filepath.Join(string(r), "lockd.sock") }

// PidLock is held by the running polisd.
func (r Run) PidLock() string { return filepath.Join(string(r), "polisd.lock") }

// RingMark is there while polisd has turned on the kernel's switch for FUSE
// requests by io_uring.
func (r Run) RingMark() string { return filepath.Join(string(r), "io_uring") }

// TotalMark is there while all agents together have limits of polisd's.
func (r Run) TotalMark() string { return filepath.Join(string(r), "total") }

// NetNS holds the agents' network namespaces.
func (r Run) NetNS() string { return filepath.Join(string(r), "netns") }

// Agents holds one directory per agent.
func (r Run) Agents() string { return filepath.Join(string(r), "agents") }

// Agent is what belongs to one running agent.
func (r Run) Agent(agent string) string { return filepath.Join(r.Agents(), agent) }

// AgentSpec is the file a shim is started with.
func (r Run) AgentSpec(agent string) string { return filepath.Join(r.Agent(agent), "spec.json") }

// AgentSocket is a shim's own API.
func (r Run) AgentSocket(agent string) string { return ShimSocket(r.Agent(agent)) }

// CheckResult is where a shim that runs a check leaves how that ended.
func CheckResult(dir string) string { return filepath.Join(dir, "check.json") }

// ShimSocket is the socket of the shim that lives in dir.
func ShimSocket(dir string) string { return filepath.Join(dir, "shim.sock") }

// InsideDir is the directory of dir that the sandbox sees as /run/polis.
func InsideDir(dir string) string { return filepath.Join(dir, "inside") }

// InsideSocket is the socket that the sandbox sees as /run/polis/api.sock.
func InsideSocket(dir string) string { return filepath.Join(InsideDir(dir), "api.sock") }

// ShimGit is where the view of the git directory of the agent is mounted on the host.
func ShimGit(dir string) string { return filepath.Join(dir, "git") }

// ShimEvents is where a shim that ends leaves its last events.
func ShimEvents(dir string) string { return filepath.Join(dir, "events.json") }

// ShimOpens is where a shim that ends leaves what it has recorded of opens, and not handed over.
func ShimOpens(dir string) string { return filepath.Join(dir, "opens.json") }

// ShimError is where a shim that could not start leaves its reason.
func ShimError(dir string) string { return filepath.Join(dir, "error.json") }

// Below reports whether a clean path is dir or in it.
func Below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
