package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

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
	switch c.Workspace.Worktree {
	case WorktreeFull, WorktreeShared:
	default:
		return bad("workspace.worktree", c.Workspace.Worktree, `must be "full" or "shared"`)
	}
	switch c.Workspace.Layers {
	case LayersView, LayersAuto:
	default:
		return bad("workspace.layers", c.Workspace.Layers, `must be "view" or "auto"`)
	}
	switch c.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		return bad("log_level", c.LogLevel, `must be "debug", "info", "warn" or "error"`)
	}
	if g := c.ReadGroup; g == "root" || g == "polis" || strings.ContainsAny(g, ":,\x00\n ") {
		return bad("read_group", g, "must be the name or number of a group that is neither root's nor polis")
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
	if err := c.checkLeftovers(); err != nil {
		return err
	}
	if err := c.checkBreakers(); err != nil {
		return err
	}
	if err := c.checkPatrol(); err != nil {
		return err
	}
	if err := errors.Join(c.checkApprovals(), c.checkNotify(), c.checkDelegate(), c.checkSetup(), c.checkSnapshots(), c.checkMetrics(), c.checkReceipts(), c.checkRecordings(), c.checkTasks()); err != nil {
		return err
	}
	if err := errors.Join(c.checkTools(), c.checkModels(), c.checkGateway(), c.checkServices()); err != nil {
		return err
	}
	if err := c.checkLocks(); err != nil {
		return err
	}
	if err := c.checkEnv(); err != nil {
		return err
	}
	if err := c.checkGit(); err != nil {
		return err
	}
	if err := c.checkMerge(); err != nil {
		return err
	}
	for field, d := range map[string]setting.Duration{"locks.stale_timeout": c.Locks.StaleTimeout,
		"locks.grace": c.Locks.Grace, "locks.daemon_wait": c.Locks.DaemonWait, "limits.stop_grace": c.Limits.StopGrace} {
		if v := time.Duration(d); v < 0 || v > 10*time.Minute {
			return bad(field, v, "must be from 0s to 10m")
		}
	}
	if v := time.Duration(c.Locks.ExplicitMax); v < 0 || v > 7*24*time.Hour {
		return bad("locks.explicit_max", v, "must be from 0s (no bound) to 168h")
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
	if n := c.Limits.DiskFiles; n != 0 && (n < 100 || n > 1<<30) {
		return bad("limits.disk_files", n, "must be 0 (no limit) or from 100 to 1073741824")
	}
	if n := c.Limits.Connections; n != 0 && (n < 16 || n > 1<<20) {
		return bad("limits.connections", n, "must be 0 (no limit) or from 16 to 1048576")
	}
	if c.Limits.IOWeight < 0 || c.Limits.IOWeight > 1000 {
		return bad("limits.io_weight", c.Limits.IOWeight, "must be from 0 (the kernel's default) to 1000")
	}
	if c.Limits.LogMB < 1 || c.Limits.LogMB > 1024 {
		return bad("limits.log_mb", c.Limits.LogMB, "must be from 1 to 1024")
	}
	if err := errors.Join(c.checkRoleRules(), checkRuleList("shared.paths", c.Shared.Paths), checkPositive("locks.exempt", c.Locks.Exempt)); err != nil {
		return err
	}
	if c.Limits.GitObjectsMB < 0 || c.Limits.GitObjectsMB > 1<<30 {
		return bad("limits.git_objects_mb", c.Limits.GitObjectsMB, "must be from 0 (no bound) to 1073741824")
	}
	if n := c.Limits.GitMemoryMB; n != 0 && (n < 64 || n > 1<<30) {
		return bad("limits.git_memory_mb", n, "must be 0 (no limit) or from 64 to 1073741824")
	}
	if err := c.Limits.MemoryAsk.check(); err != nil {
		return err
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
