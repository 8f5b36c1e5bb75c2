package wire

import (
	"time"

	"polis/daemon/api/setting"
	"polis/internal/pinned"
)

// Spec is everything that a shim needs. polisd writes it to a file that only root can read, before
// the shim starts. Later only Settings change in it, together with the settings of the running
// shim, so that a polisd that lost its state can read them.
type Spec struct {
	Version   int    `json:"version"`
	Agent     string `json:"agent"`
	Workspace string `json:"workspace"`
	// RunDir is the shim's own directory below /run: sockets, rootfs, libcontainer state.
	RunDir string `json:"run_dir"`
	// LockSocket is where lockd listens; Session names this agent's session
	// across reconnects.
	LockSocket string `json:"lock_socket"`
	// State is the directory of the workspace that polis has. What is below it is opened from there: the owner of a
	// directory above it can exchange that one.
	State string `json:"state,omitempty"`
	// Project is the recorded identity of the project.
	Project pinned.Record `json:"project,omitzero"`
	Session string        `json:"session"`
	Secret  string        `json:"secret"`

	Git bool `json:"git"`
	// Tree is the directory below the view (the worktree, or the project of a
	// workspace without git); Mountpoint is where the view is mounted on the host.
	Tree string `json:"tree"`
	// Upper is the directory of the agent's own changes, if Tree is an overlay of them and a base
	// tree that it shares with others; "" if Tree is the agent's own.
	Upper string `json:"upper,omitempty"`
	// Lower is the base tree if the overlay is above the view: Tree and Upper are then the directory of
	// the agent's own changes, which the view shows to the overlay, and Work is the overlay's own. ""
	// if the view is above the overlay, or there is none.
	Lower string `json:"lower,omitempty"`
	Work  string `json:"work,omitempty"`
	// Setup is the directory below Lower in the overlay, with what the setup command of the project
	// made; "" if there is none. Without Lower it is below the view already.
	Setup string `json:"setup,omitempty"`
	// Audit is AuditFull or AuditPolicy if the shim records what the agent opens; AuditDeny: while it
	// cannot, the agent opens nothing.
	Audit     string `json:"audit,omitempty"`
	AuditDeny bool   `json:"audit_deny,omitempty"`
	// ReadOnly: the agent changes neither Tree nor the git directory, and has no branch.
	ReadOnly bool `json:"read_only,omitempty"`
	// AsUser: the tree is root's, and the view shows it as UID's and GID's.
	AsUser      bool     `json:"as_user,omitempty"`
	Mountpoint  string   `json:"mountpoint"`
	ProjectPath string   `json:"project_path"`
	BareRepo    string   `json:"bare_repo,omitempty"`
	PrivateGit  string   `json:"private_git,omitempty"`
	Branch      string   `json:"branch,omitempty"`
	Target      string   `json:"target,omitempty"`
	OwnedRefs   []string `json:"owned_refs,omitempty"`
	// Tracked is the file with the paths that the target and all agents' branches track; "" if
	// polisd keeps none.
	Tracked string `json:"tracked,omitempty"`
	// Filtered is the directory of the shared objects that the agent may read (package filtered).
	// It replaces the shared objects. "" if the rules withhold no file.
	Filtered string `json:"filtered,omitempty"`
	// GitBytes bounds what the agent adds to the shared objects; 0: no bound.
	GitBytes int64 `json:"git_bytes,omitempty"`
	// GitMemory bounds the memory of the git commands the shim runs; 0: no bound.
	GitMemory int64 `json:"git_memory,omitempty"`
	// GitRemotes: the agent may write the refs that its git fetched from remotes.
	GitRemotes bool `json:"git_remotes,omitempty"`
	// GitConfig is the text of a git configuration for the agent's worktree.
	GitConfig string `json:"git_config,omitempty"`
	// GitSeed is a text of git configuration that the agent's own begins with, when it is made.
	GitSeed string `json:"git_seed,omitempty"`
	// Hooks are the git hooks of the project; nil: it has none.
	Hooks *GitHooks `json:"hooks,omitempty"`
	// FullName and Email are the identity of the sandbox's user. git uses them unless a
	// configuration sets another identity.
	FullName string `json:"full_name,omitempty"`
	Email    string `json:"email,omitempty"`

	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	User    string `json:"user"`
	Home    string `json:"home"`
	HomeDir string `json:"home_dir"`
	Scratch string `json:"scratch,omitempty"`
	LogDir  string `json:"log_dir"`
	// LastTask is the ID of the last task before the shim was started; "" if there was none.
	LastTask string `json:"last_task,omitempty"`

	// Shared is what the view shows beside the agent's files; nil for nothing.
	Shared *Shared `json:"shared,omitempty"`

	// Settings are those of the start, until polisd changes them: their keys are keys of the spec. Vars come after Env.
	Settings

	LocksExempt []string           `json:"locks_exempt,omitempty"`
	Wait        setting.Duration   `json:"wait"`
	Hold        setting.Hold       `json:"hold"`
	LockRules   []setting.LockRule `json:"lock_rules,omitempty"`
	// LockTrees is whether the agent locks directories by name; "" is Allow.
	LockTrees    setting.Verdict  `json:"lock_trees,omitempty"`
	StaleTimeout setting.Duration `json:"stale_timeout"`
	// DaemonWait bounds the wait for polisd while it is not running; 0: lockd's default.
	DaemonWait setting.Duration `json:"daemon_wait,omitempty"`
	TempNames  []string         `json:"temp_names,omitempty"`
	// TempFiles is locks.temp_files.
	TempFiles bool            `json:"temp_files,omitempty"`
	Mounts    []setting.Mount `json:"mounts,omitempty"`
	Env       []string        `json:"env,omitempty"`
	// Context is the file that the agent's program reads for its model (config.BaseType).
	Context string `json:"context,omitempty"`
	// Hook names the program (package hook) that must ask before it uses a tool, "" for none.
	Hook string `json:"hook,omitempty"`
	// SaidHook names the program (package hook) that asks at each call of a tool whether a person has said
	// something, "" for none.
	SaidHook string `json:"said_hook,omitempty"`
	// ToolNames are the names that the agent's program has for its tools (approval.ReadNames).
	ToolNames map[string][]string `json:"tool_names,omitempty"`
	// OwnEnv is the part of Vars that is the agent's own. Only polisd uses it.
	OwnEnv  map[string]string `json:"own_env,omitempty"`
	Command []string          `json:"command,omitempty"`
	NetNS   string            `json:"netns"`
	Address string            `json:"address"`
	// NetTable and NetLink are where the agent's gate is (netbridge.Gate), empty
	// if its network has none.
	NetTable string `json:"net_table,omitempty"`
	NetLink  string `json:"net_link,omitempty"`
	// ResolvConf names the resolvers to ask; "": the host\'s.
	ResolvConf string           `json:"resolv_conf,omitempty"`
	CgroupPath string           `json:"cgroup_path"`
	Delegated  bool             `json:"delegated,omitempty"`
	SocketGID  int              `json:"socket_gid"`
	StopGrace  setting.Duration `json:"stop_grace"`
	LogBytes   int64            `json:"log_bytes"`
	Ports      []PortSpec       `json:"ports,omitempty"`
	Created    time.Time        `json:"created"`
	// BaseType and Command are not used by the shim. They describe the agent if polisd's
	// state is lost.
	BaseType string `json:"base_type,omitempty"`
	// Worker: the agent was made by delegating a task. Parent is the agent that delegated it. Only
	// polisd uses both.
	Worker     bool   `json:"worker,omitempty"`
	Parent     string `json:"parent,omitempty"`
	Generation uint64 `json:"generation"`

	// Path are directories of the sandbox's PATH that come before the system's.
	Path []string `json:"path,omitempty"`
	// Lost are the parts of the isolation that this machine does not support (package isolation).
	// The agent shares them with the host.
	Lost []string `json:"lost,omitempty"`
	// NoRing disables io_uring for views: requests come over /dev/fuse only.
	NoRing bool `json:"no_ring,omitempty"`
	// UserNamespaces lets the agent's processes make user namespaces.
	UserNamespaces bool `json:"user_namespaces,omitempty"`

	// Check, if not nil, makes the sandbox run this one command once, without a view, instead of an
	// agent.
	Check *Check `json:"check,omitempty"`
}

// Check is a command to run on the files in Spec.Tree.
type Check struct {
	Command []string         `json:"command"`
	Timeout setting.Duration `json:"timeout"`
	Log     string           `json:"log"` // file for its output, of which Spec.LogBytes are kept
	// Setup: it is the setup command of a workspace, which has a network if Spec.NetNS is not "".
	Setup bool `json:"setup,omitempty"`
	// Shared are names of directories of the project that the command may read at their paths.
	Shared []string `json:"shared,omitempty"`
}

// CheckResult is how a check ended.
type CheckResult struct {
	ExitCode int  `json:"exit_code"`
	TimedOut bool `json:"timed_out,omitempty"`
	OOM      bool `json:"oom,omitempty"`
	// Error is the reason if the command could not be run at all.
	Error string `json:"error,omitempty"`
}

// Shared is what agents of a workspace have in common (package fusefs/shared).
type Shared struct {
	// Paths are globs of ignored files of the project that appear in the view.
	Paths []string `json:"paths"`
	// Dir contains the agent's changed copies of them.
	Dir string `json:"dir"`
	// Made are names that the worktree has from the setup command: nothing of the project appears
	// there.
	Made []string `json:"made,omitempty"`
	// Store is the content of installed packages; "" if it is not shared.
	Store string `json:"store,omitempty"`
}

// PortSpec is a port map to set up.
type PortSpec struct {
	Internal int    `json:"internal"`
	External int    `json:"external"`
	Bind     string `json:"bind"`
	// Protocol is "tcp" (or "") or "udp".
	Protocol string `json:"protocol,omitempty"`
}
