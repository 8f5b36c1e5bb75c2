package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
	"polis/fusefs/policy/glob"
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
	Launcher    string          `toml:"launcher"`
	MaxAgents   int             `toml:"max_agents"`
	LogLevel    string          `toml:"log_level"`
	Network     Network         `toml:"network"`
	Locks       Locks           `toml:"locks"`
	Limits      Limits          `toml:"limits"`
	Admission   Admission       `toml:"admission"`
	Sandbox     Sandbox         `toml:"sandbox"`
	Shared      Shared          `toml:"shared"`
	Git         Git             `toml:"git"`
	Maintenance Maintenance     `toml:"maintenance"`
	Merge       Merge           `toml:"merge"`
	Trash       Trash           `toml:"trash"`
	Roles       map[string]Role `toml:"roles"`
}

// Network is the [network] table.
type Network struct {
	Pool    string `toml:"pool"`
	Ports   string `toml:"ports"`
	Bind    string `toml:"bind"`
	AutoMap bool   `toml:"auto_map"`
	// ResolvConf names the resolvers that answer agents' questions, resolv.conf(5).
	ResolvConf string `toml:"resolv_conf"`
	// Proxy is the address and port of the HTTP proxy that gives agents' web
	// servers names; "" is none.
	Proxy string `toml:"proxy"`
	NetworkRules
}

// Locks is the [locks] table.
type Locks struct {
	// Wait is another way to write OnConflict; only one of them may be given.
	Wait *wire.Duration `toml:"wait"`
	LockRules
	StaleTimeout wire.Duration `toml:"stale_timeout"`
	Grace        wire.Duration `toml:"grace"`
	// DaemonWait is how long an access that needs a new lease waits for a
	// polisd that is away.
	DaemonWait wire.Duration `toml:"daemon_wait"`
	Exempt     []string      `toml:"exempt"`
	// Delegate lets an agent that is alone in a directory take leases there
	// without asking polisd.
	Delegate  bool     `toml:"delegate"`
	TempNames []string `toml:"temp_names"`
}

// Limits is the [limits] table: what an agent gets unless asked otherwise.
type Limits struct {
	MemoryMB  int `toml:"memory_mb"`
	Pids      int `toml:"pids"`
	CPUWeight int `toml:"cpu_weight"`
	// CPU bounds the processor time, in percent of one processor; 0: no bound.
	CPU int `toml:"cpu"`
	// IOWeight is for disks whose scheduler knows weights; 0: the kernel's default.
	IOWeight  int           `toml:"io_weight"`
	StopGrace wire.Duration `toml:"stop_grace"`
	LogMB     int           `toml:"log_mb"`
	// GitObjectsMB bounds what an agent adds to the shared git objects; 0: no bound.
	GitObjectsMB int `toml:"git_objects_mb"`
	// DiskMB bounds an agent's worktree, home and scratch directory; 0: no bound.
	DiskMB int `toml:"disk_mb"`
	// Total bounds all agents together.
	Total Total `toml:"total"`
}

// Admission is the [admission] table: how much agents may be promised.
type Admission struct {
	// ReserveMB is memory that is not for agents.
	ReserveMB int `toml:"reserve_mb"`
	// Overcommit is how many times what there is the limits of all agents that
	// live may be: most use little of theirs.
	Overcommit float64 `toml:"overcommit"`
	// DiskFreeMB must be free on the disk with the workspace.
	DiskFreeMB int `toml:"disk_free_mb"`
}

// Total is the [limits.total] table; 0 is no bound.
type Total struct {
	MemoryMB int `toml:"memory_mb"`
	CPU      int `toml:"cpu"` // percent of one processor
	Pids     int `toml:"pids"`
}

// Sandbox is the [sandbox] table.
type Sandbox struct {
	// User is who agents run as when the project belongs to root.
	User        string       `toml:"user"`
	ExtraMounts []wire.Mount `toml:"extra_mounts"`
	// Path are directories that a sandbox's PATH has before the system's, and where
	// programs of base types are looked for first.
	Path []string `toml:"path"`
	// Degraded says what becomes of agents where the machine cannot isolate them
	// fully: DegradedRefuse or DegradedAllow.
	Degraded string `toml:"degraded"`
	// UserNamespaces lets agents make namespaces of their own inside.
	UserNamespaces bool `toml:"user_namespaces"`
}

// What Sandbox.Degraded may be.
const (
	DegradedRefuse = "refuse"
	DegradedAllow  = "allow"
)

// Shared is the [shared] table: what agents have in common.
type Shared struct {
	// Paths are globs of ignored files of the project that agents see.
	Paths []string `toml:"paths"`
	// Pnpm says that packages are installed with pnpm, and their files kept once.
	Pnpm bool `toml:"pnpm"`
}

// Role is a named policy: [roles.NAME].
type Role struct {
	api.Policy
	// Locks changes [locks] for agents of this role.
	Locks LockRules `toml:"locks"`
	// Git changes [git] for agents of this role.
	Git GitRules `toml:"git"`
	// Network changes egress and allow_private of [network] for agents of this role.
	Network NetworkRules `toml:"network"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		RunDir: DefaultRunDir, WorkspacesDir: "/var/lib/polis", AgentsDir: "/etc/polis/agents.d",
		Shim: "", Launcher: "auto", MaxAgents: 10, LogLevel: "info",
		Network: Network{Pool: "10.213.0.0/16", Ports: "3001-9999", Bind: "127.0.0.1", AutoMap: true, ResolvConf: "/etc/resolv.conf", NetworkRules: NetworkRules{Egress: Egress{egress.Open}}},
		Locks: Locks{Delegate: true, LockRules: LockRules{Hold: "30s", OnConflict: "3s"},
			StaleTimeout: wire.Duration(30 * time.Second), Grace: wire.Duration(5 * time.Second),
			DaemonWait: wire.Duration(10 * time.Second)},
		Limits: Limits{MemoryMB: 512, Pids: 512, CPUWeight: 100,
			StopGrace: wire.Duration(5 * time.Second), LogMB: 16, GitObjectsMB: 10 << 10},
		Admission: Admission{ReserveMB: 512, Overcommit: 4, DiskFreeMB: 256},
		Sandbox:   Sandbox{User: "polis", Degraded: DegradedRefuse},
		Shared:    Shared{Paths: []string{"node_modules", ".env", ".env.*"}, Pnpm: true},
		Git:       defaultGit(), Maintenance: defaultMaintenance(),
		Merge: defaultMerge(),
		Trash: Trash{TTL: wire.Duration(30 * 24 * time.Hour)},
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
		c.Locks.OnConflict = wire.OnConflict(time.Duration(*c.Locks.Wait).String())
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

func (c *Config) check() error {
	bad := func(field string, value any, rule string) error {
		return api.Errorf(api.CodeInvalidConfig, "%s = %q: %s", field, fmt.Sprint(value), rule)
	}
	for field, dir := range map[string]string{"run_dir": c.RunDir, "workspaces_dir": c.WorkspacesDir, "agents_dir": c.AgentsDir} {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
			return bad(field, dir, "must be a clean absolute path")
		}
	}
	if len(c.RunDir) > 50 {
		return bad("run_dir", c.RunDir, "must have at most 50 bytes, because socket paths below it have at most 107")
	}
	if c.Shim != "" && !filepath.IsAbs(c.Shim) {
		return bad("shim", c.Shim, "must be an absolute path")
	}
	switch c.Launcher {
	case "auto", "systemd", "fork":
	default:
		return bad("launcher", c.Launcher, `must be "auto", "systemd" or "fork"`)
	}
	switch c.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		return bad("log_level", c.LogLevel, `must be "debug", "info", "warn" or "error"`)
	}
	if c.MaxAgents < 1 || c.MaxAgents > 1000 {
		return bad("max_agents", c.MaxAgents, "must be from 1 to 1000")
	}
	if p, err := netip.ParsePrefix(c.Network.Pool); err != nil || !p.Addr().Is4() || p.Bits() > 22 || !p.Addr().IsPrivate() {
		return bad("network.pool", c.Network.Pool, "must be a private IPv4 network of at least /22")
	}
	if _, _, err := parseRange(c.Network.Ports); err != nil {
		return bad("network.ports", c.Network.Ports, err.Error())
	}
	if _, err := netip.ParseAddr(c.Network.Bind); err != nil {
		return bad("network.bind", c.Network.Bind, "must be an IP address")
	}
	if r := c.Network.ResolvConf; !filepath.IsAbs(r) {
		return bad("network.resolv_conf", r, "must be an absolute path")
	}
	if err := c.checkProxy(); err != nil {
		return bad("network.proxy", c.Network.Proxy, err.Error())
	}
	if err := c.checkNetwork(); err != nil {
		return err
	}
	if err := c.checkLocks(); err != nil {
		return err
	}
	if err := c.checkGit(); err != nil {
		return err
	}
	if err := c.checkMerge(); err != nil {
		return err
	}
	for field, d := range map[string]wire.Duration{"locks.stale_timeout": c.Locks.StaleTimeout,
		"locks.grace": c.Locks.Grace, "locks.daemon_wait": c.Locks.DaemonWait, "limits.stop_grace": c.Limits.StopGrace} {
		if v := time.Duration(d); v < 0 || v > 10*time.Minute {
			return bad(field, v, "must be from 0s to 10m")
		}
	}
	if c.Limits.MemoryMB < 16 || c.Limits.MemoryMB > 1<<20 {
		return bad("limits.memory_mb", c.Limits.MemoryMB, "must be from 16 to 1048576")
	}
	if c.Limits.Pids < 16 || c.Limits.Pids > 1<<20 {
		return bad("limits.pids", c.Limits.Pids, "must be from 16 to 1048576")
	}
	if c.Limits.CPUWeight < 1 || c.Limits.CPUWeight > 10000 {
		return bad("limits.cpu_weight", c.Limits.CPUWeight, "must be from 1 to 10000")
	}
	if c.Limits.CPU < 0 || c.Limits.CPU > 100_000 {
		return bad("limits.cpu", c.Limits.CPU, "must be from 0 (no limit) to 100000; 100 is one processor")
	}
	if n := c.Limits.Total.MemoryMB; n != 0 && (n < c.Limits.MemoryMB || n > 1<<30) {
		return bad("limits.total.memory_mb", n, "must be 0 (no limit), or from limits.memory_mb, which one agent gets, to 1073741824")
	}
	if n := c.Limits.Total.Pids; n != 0 && (n < c.Limits.Pids || n > 1<<22) {
		return bad("limits.total.pids", n, "must be 0 (no limit), or from limits.pids, which one agent gets, to 4194304")
	}
	if n := c.Limits.Total.CPU; n < 0 || n > 100_000 {
		return bad("limits.total.cpu", n, "must be from 0 (no limit) to 100000; 100 is one processor")
	}
	if n := c.Admission.ReserveMB; n < 0 || n > 1<<30 {
		return bad("admission.reserve_mb", n, "must be from 0 to 1073741824")
	}
	if f := c.Admission.Overcommit; !(f >= 0.1 && f <= 1000) {
		return bad("admission.overcommit", f, "must be from 0.1 to 1000; 1 is no more than there is")
	}
	if n := c.Admission.DiskFreeMB; n < 0 || n > 1<<30 {
		return bad("admission.disk_free_mb", n, "must be from 0 to 1073741824")
	}
	if n := c.Limits.DiskMB; n != 0 && (n < 16 || n > 1<<30) {
		return bad("limits.disk_mb", n, "must be 0 (no limit) or from 16 to 1073741824")
	}
	if c.Limits.IOWeight < 0 || c.Limits.IOWeight > 1000 {
		return bad("limits.io_weight", c.Limits.IOWeight, "must be from 0 (the kernel's default) to 1000")
	}
	if c.Limits.LogMB < 1 || c.Limits.LogMB > 1024 {
		return bad("limits.log_mb", c.Limits.LogMB, "must be from 1 to 1024")
	}
	for i, p := range c.Shared.Paths {
		if _, err := glob.Compile(p); err != nil {
			return bad(fmt.Sprintf("shared.paths[%d]", i), p, "must be a pattern as in gitignore(5): "+err.Error())
		}
	}
	if c.Limits.GitObjectsMB < 0 || c.Limits.GitObjectsMB > 1<<30 {
		return bad("limits.git_objects_mb", c.Limits.GitObjectsMB, "must be from 0 (no bound) to 1073741824")
	}
	if d := c.Sandbox.Degraded; d != DegradedRefuse && d != DegradedAllow {
		return bad("sandbox.degraded", d, `must be "refuse" or "allow"`)
	}
	for i, p := range c.Sandbox.Path {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsAny(p, ":\x00\n") {
			return bad(fmt.Sprintf("sandbox.path[%d]", i), p, "must be a clean absolute path without colons")
		}
	}
	for i, m := range c.Sandbox.ExtraMounts {
		if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Dest) {
			return bad(fmt.Sprintf("sandbox.extra_mounts[%d]", i), m.Source+":"+m.Dest, "source and dest must be absolute paths")
		}
	}
	return nil
}

// Agent is what an agent may use that has these limits of its own. A limit
// that is none is 0.
func (l *Limits) Agent(own api.Limits) api.Limits {
	out := own.Over(api.Limits{Pids: l.Pids, CPUPercent: l.CPU, CPUWeight: l.CPUWeight, IOWeight: l.IOWeight, DiskMB: l.DiskMB})
	out.CPUPercent, out.DiskMB = max(out.CPUPercent, 0), max(out.DiskMB, 0)
	return out
}

// checkProxy wants a port that no port map can have.
func (c *Config) checkProxy() error {
	if c.Network.Proxy == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(c.Network.Proxy)
	if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
		return errors.New("must be an IP address and a port, such as 127.0.0.1:3000")
	}
	if lo, hi := c.PortRange(); int(at.Port()) >= lo && int(at.Port()) <= hi {
		return fmt.Errorf("its port must not be one of network.ports, %d-%d", lo, hi)
	}
	return nil
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
