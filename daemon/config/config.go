package config

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/netbridge/egress"
)

// DefaultFile is where the configuration is unless --config says otherwise.
const DefaultFile = "/etc/polis/polisd.toml"

// DefaultRunDir is the run directory of the machine's own polisd.
const DefaultRunDir = "/run/polis"

// Config is polisd.toml. Times are Go durations ("3s"); sizes are in the unit
// their name ends in.
type Config struct {
	RunDir        string `toml:"run_dir"`
	WorkspacesDir string `toml:"workspaces_dir"`
	AgentsDir     string `toml:"agents_dir"`
	Shim          string `toml:"shim"`
	// Launcher starts shims: "systemd" (polis-agent@ units), "fork", or
	// "auto": systemd when polisd itself was started by it.
	Launcher  string `toml:"launcher"`
	MaxAgents int    `toml:"max_agents"`
	LogLevel  string `toml:"log_level"`
	// ReadGroup may read through the admin socket and change nothing; "": there is none.
	ReadGroup   string          `toml:"read_group"`
	Network     Network         `toml:"network"`
	Locks       Locks           `toml:"locks"`
	Limits      Limits          `toml:"limits"`
	Admission   Admission       `toml:"admission"`
	Sandbox     Sandbox         `toml:"sandbox"`
	Shared      Shared          `toml:"shared"`
	Git         Git             `toml:"git"`
	Workspace   Workspace       `toml:"workspace"`
	Maintenance Maintenance     `toml:"maintenance"`
	Merge       Merge           `toml:"merge"`
	Trash       Trash           `toml:"trash"`
	Snapshots   Snapshots       `toml:"snapshots"`
	Metrics     Metrics         `toml:"metrics"`
	Receipts    Receipts        `toml:"receipts"`
	Recordings  Recordings      `toml:"recordings"`
	Patrol      Patrol          `toml:"patrol"`
	Tasks       Tasks           `toml:"tasks"`
	Approvals   Approvals       `toml:"approvals"`
	Notify      Notify          `toml:"notify"`
	Delegate    Delegate        `toml:"delegate"`
	Roles       map[string]Role `toml:"roles"`
	Breakers    Breakers        `toml:"breakers"`
	// Models are the model services behind the gateway, by name.
	Models map[string]Model `toml:"models"`
	// Services are the other services behind the gateway, by name.
	Services map[string]Service `toml:"services"`
	// Gateway is what agents use of them.
	Gateway Gateway `toml:"gateway"`
	// Agents has what counts for an agent by its name.
	Agents map[string]AgentTable `toml:"agents"`
}

// Network is the [network] table.
type Network struct {
	Pool    string `toml:"pool"`
	Ports   string `toml:"ports"`
	Bind    string `toml:"bind"`
	AutoMap bool   `toml:"auto_map"`
	// ResolvConf names the resolvers that answer agents' questions, resolv.conf(5).
	ResolvConf string `toml:"resolv_conf"`
	// DockerUser has polisd add rules for agents to Docker's chain DOCKER-USER.
	DockerUser bool `toml:"docker_user"`
	// Proxy is the address and port of the HTTP proxy that gives agents' web
	// servers names; "" is none.
	Proxy string `toml:"proxy"`
	NetworkRules
}

// Locks is the [locks] table.
type Locks struct {
	// Wait is another way to write OnConflict; only one of them may be given.
	Wait *setting.Duration `toml:"wait"`
	LockRules
	StaleTimeout setting.Duration `toml:"stale_timeout"`
	Grace        setting.Duration `toml:"grace"`
	// DaemonWait is how long an access that needs a new lease waits for a
	// polisd that is away.
	DaemonWait setting.Duration `toml:"daemon_wait"`
	// ExplicitMax is how long a lock lasts that an agent takes by name; 0: no bound.
	ExplicitMax setting.Duration `toml:"explicit_max"`
	Exempt      []string         `toml:"exempt"`
	// Delegate lets an agent that is alone in a directory take leases there
	// without asking polisd.
	Delegate  bool     `toml:"delegate"`
	TempNames []string `toml:"temp_names"`
	// TempFiles lets programs make temporary files beside the single files that the rules let an agent write.
	TempFiles bool `toml:"temp_files"`
}

// Shared is the [shared] table: what agents have in common.
type Shared struct {
	// Paths are globs of ignored files of the project that agents see.
	Paths []string `toml:"paths"`
	// Pnpm is true if packages are installed with pnpm, and their files kept once.
	Pnpm bool `toml:"pnpm"`
}

// Role is a named policy: [roles.NAME].
type Role struct {
	api.Policy
	// Locks changes [locks] for agents of this role.
	Locks LockRules `toml:"locks"`
	// OnStart changes on_start of [merge] for agents of this role.
	OnStart string `toml:"on_start"`
	// AutoCommit commits what a task that ended well has left in no commit.
	AutoCommit bool `toml:"auto_commit"`
	// RemoveAfter changes remove_after of [merge] for agents of this role.
	RemoveAfter *bool `toml:"remove_after"`
	// Git changes [git] for agents of this role.
	Git GitRules `toml:"git"`
	// Network changes egress, allow_private and host_ports of [network] for agents of this role.
	Network NetworkRules `toml:"network"`
	// Tools decide about tools of the agents' programs; without them a person does.
	Tools api.ToolRules `toml:"tools"`
	// Leftovers describes what is done about processes that a command left running:
	// api.LeftoversKeep ("" too), LeftoversEnd or LeftoversAsk.
	Leftovers string `toml:"leftovers"`
	// Patrol describes what is done about agents of this role that stall.
	Patrol PatrolRules `toml:"patrol"`
	// Breakers changes [breakers] for agents of this role.
	Breakers Breakers `toml:"breakers"`
	// Model is what the programs of agents of this role work with, unless a task says another;
	// Models is the same for one base type each.
	Model  string            `toml:"model"`
	Models map[string]string `toml:"models"`
	// Gateway changes [gateway] for agents of this role.
	Gateway Gateway `toml:"gateway"`
	// SharedBudget bounds what the agents of this role use of model services together.
	SharedBudget setting.SharedBudget `toml:"shared_budget"`
	// Audit is what of agents of this role is recorded; see Receipts.
	Audit string `toml:"audit"`
	// Mode is PolicyEnforce ("" too) or PolicyRecord.
	Mode string `toml:"policy"`
	// Env are variables of agents of this role.
	Env map[string]string `toml:"env"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		RunDir: DefaultRunDir, WorkspacesDir: "/var/lib/polis", AgentsDir: "/etc/polis/agents.d",
		Shim: "", Launcher: "auto", MaxAgents: 10, LogLevel: "info",
		Network: Network{Pool: "10.213.0.0/16", Ports: "3001-9999", Bind: "127.0.0.1", AutoMap: true, ResolvConf: "/etc/resolv.conf", NetworkRules: NetworkRules{Egress: Egress{egress.Open}}},
		Locks: Locks{Delegate: true, TempFiles: true, LockRules: LockRules{Hold: "30s", OnConflict: "3s", Trees: setting.Allow},
			StaleTimeout: setting.Duration(30 * time.Second), Grace: setting.Duration(5 * time.Second),
			DaemonWait: setting.Duration(10 * time.Second), ExplicitMax: setting.Duration(10 * time.Minute)},
		Limits: Limits{MemoryMB: 512, Pids: 512, CPUWeight: 100,
			StopGrace: setting.Duration(5 * time.Second), LogMB: 16, GitObjectsMB: 10 << 10, GitMemoryMB: 2 << 10, Connections: 4096, MemoryAsk: MemoryAsk{At: 90}},
		Admission: Admission{ReserveMB: 512, Overcommit: 4, DiskFreeMB: 256},
		Sandbox:   Sandbox{User: "polis", Degraded: DegradedRefuse},
		Shared:    Shared{Paths: []string{"node_modules", ".env", ".env.*"}, Pnpm: true},
		Workspace: Workspace{Worktree: WorktreeFull, Layers: LayersView, Setup: defaultSetup()},
		Git:       defaultGit(), Maintenance: defaultMaintenance(),
		Merge: defaultMerge(),
		Trash: Trash{TTL: setting.Duration(30 * 24 * time.Hour)}, Snapshots: defaultSnapshots(), Receipts: defaultReceipts(), Recordings: defaultRecordings(), Gateway: defaultGateway(), Patrol: defaultPatrol(), Tasks: defaultTasks(),
		Approvals: defaultApprovals(), Notify: defaultNotify(), Delegate: defaultDelegate(),
	}
}

// Load reads file over the defaults. A missing file is the defaults only if
// it is DefaultFile.
func Load(file string) (Config, error) {
	c := Default()
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && file == DefaultFile:
	case err != nil:
		return c, api.Errorf(api.CodeInvalidConfig, "read configuration: %w", err)
	default:
		if c, err = Parse(string(b)); err != nil {
			e := api.AsError(err)
			e.Message = file + ": " + e.Message
			return c, e
		}
	}
	return c, c.check()
}

// Parse reads the text of a configuration over the defaults.
func Parse(text string) (Config, error) {
	c := Default()
	md, err := toml.Decode(text, &c)
	if err != nil {
		return c, api.Errorf(api.CodeInvalidConfig, "%w", err)
	}
	if un := md.Undecoded(); len(un) > 0 {
		return c, api.Errorf(api.CodeInvalidConfig, "unknown key %q", un[0].String()).
			WithHint("see polisd.toml(5) for the keys")
	}
	if c.Locks.Wait != nil {
		if *c.Locks.Wait < 0 {
			return c, api.Errorf(api.CodeInvalidConfig, "locks.wait = %q: must not be negative", time.Duration(*c.Locks.Wait))
		}
		if md.IsDefined("locks", "on_conflict") {
			return c, api.Errorf(api.CodeInvalidConfig, "locks.wait and locks.on_conflict say the same: give one of them")
		}
		c.Locks.OnConflict = setting.OnConflict(time.Duration(*c.Locks.Wait).String())
	}
	return c, c.check()
}

// PortRange returns the first and last external port.
func (c *Config) PortRange() (lo, hi int) {
	lo, hi, _ = parseRange(c.Network.Ports)
	return lo, hi
}

// Instance names this polisd among others on the machine: empty for the
// machine's own.
func (c *Config) Instance() string {
	if c.RunDir == DefaultRunDir {
		return ""
	}
	return c.RunDir
}

func parseRange(s string) (lo, hi int, err error) {
	a, b, ok := strings.Cut(s, "-")
	lo, err1 := strconv.Atoi(a)
	hi, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || lo < 1024 || hi > 65535 || lo > hi {
		return 0, 0, errors.New("must be FIRST-LAST with 1024 <= FIRST <= LAST <= 65535")
	}
	return lo, hi, nil
}
