package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/isolation"
	"polis/daemon/store/layout"
	"polis/fusefs/fdtree"
)

func sandboxID(spec wire.Spec) string  { return "polis-" + spec.Agent }
func stateDir(spec wire.Spec) string   { return filepath.Join(spec.RunDir, "libcontainer") }
func rootfsDir(spec wire.Spec) string  { return filepath.Join(spec.RunDir, "rootfs") }
func gitMount(spec wire.Spec) string   { return layout.ShimGit(spec.RunDir) }
func resolvConf(spec wire.Spec) string { return filepath.Join(spec.RunDir, "resolv.conf") }

// sandboxConfig returns the configuration of the agent's sandbox.
func (s *Shim) sandboxConfig(self string, o *sources) sandbox.Config {
	sp := s.Spec
	return sandbox.Config{
		ID: sandboxID(sp), StateDir: stateDir(sp), RootfsDir: rootfsDir(sp),
		UID: sp.UID, GID: sp.GID, User: sp.User, Home: sp.Home, HomeDir: sp.HomeDir, HomeOpen: o.home, ScratchDir: scratchOf(sp, o), ScratchOpen: o.scratch, RunDir: s.insideDir(),
		Mounts: o.mounts, Workdir: sp.ProjectPath, FullName: sp.FullName, Hostname: sp.Agent, Domain: api.Domain, ResolvConf: resolver(sp), NetNS: sp.NetNS, Env: s.searchPath(),
		CgroupPath: sp.CgroupPath, Limits: sandboxLimits(limitsOf(sp.Settings)),
		InitBinary: self, Log: s.Log,
		UserNamespaces: sp.UserNamespaces, ReportDenied: true, Shared: sharedWith(sp),
	}
}

func (s *Shim) openSandbox(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return api.Errorf(api.CodeInternal, "find own program: %w", err)
	}
	managed, err := s.managedMounts()
	if err != nil {
		return api.Errorf(api.CodeInternal, "managed configuration of the agent's program: %w", err)
	}
	o, err := s.openSources()
	if err != nil {
		return api.Errorf(api.CodeNamespaceFailed, "make the sandbox: %w", err)
	}
	defer o.close()
	cfg := s.sandboxConfig(self, o)
	cfg.Mounts = append(cfg.Mounts, managed...)
	box, err := sandbox.Create(ctx, cfg)
	switch {
	case errors.Is(err, sandbox.ErrCgroup):
		return api.Errorf(api.CodeCgroupFailed, "make the sandbox: %w", err)
	case err != nil:
		return api.Errorf(api.CodeNamespaceFailed, "make the sandbox: %w", err)
	}
	s.sandbox = box
	s.onClose("sandbox", func(ctx context.Context) error { return box.Destroy(ctx) })
	if err := setWeights(ctx, s.Spec, limitsOf(s.Spec.Settings)); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "weigh the agent: %w", err)
	}
	return nil
}

// watchSandbox starts what watches the agent's processes.
func (s *Shim) watchSandbox() error {
	s.openLeftovers()
	s.entered.Store(true)
	s.egress.begin(s.sandbox.Pids)
	s.group.Go(func() error { s.watchOOM(); return nil })
	s.group.Go(func() error { s.watchWritten(s.ctx); return nil })
	s.group.Go(func() error { s.reportCalls(); return nil })
	return s.watchActivity()
}

// sharedWith returns what the sandbox shares with the host because this machine cannot isolate it.
func sharedWith(spec wire.Spec) sandbox.Shared {
	lost := func(what string) bool { return slices.Contains(spec.Lost, what) }
	return sandbox.Shared{Network: lost(isolation.Network), PID: lost(isolation.PID), IPC: lost(isolation.IPC), UTS: lost(isolation.UTS), Cgroup: lost(isolation.Cgroup)}
}

// resolver returns the resolv.conf of the sandbox, or "" to use the host's file in the host's
// network.
func resolver(spec wire.Spec) string {
	if sharedWith(spec).Network {
		return ""
	}
	return resolvConf(spec)
}

// writeResolvConf writes the address of the resolver that the shim serves in the sandbox's network
// namespace.
func writeResolvConf(spec wire.Spec, server string) error {
	return os.WriteFile(resolvConf(spec), []byte("nameserver "+server+"\noptions timeout:2 attempts:2\n"), 0o644)
}

// Cleanup removes what a dead shim of this agent left: sandbox, control group, mounts, sockets.
// It is idempotent and also runs before a shim starts. The connections are ended first: what waits for an answer of
// the dead shim does not end otherwise, be it a process of the agent or a thread of the shim.
func Cleanup(ctx context.Context, spec wire.Spec) error {
	errs := []error{abortViews(spec), sandbox.Cleanup(ctx, stateDir(spec), sandboxID(spec), rootfsDir(spec), spec.CgroupPath), removeGroup(ctx, spec)}
	errs = append(errs, unmountView(spec))
	for _, m := range []string{upperMount(spec), gitMount(spec)} {
		errs = append(errs, unmountAll(m, fsName(spec)))
	}
	errs = append(errs, unmountSnapshots(spec, ""), fdtree.RemoveAll(ctx, snapshotsDir(spec)))
	// No process of the agent is left, and the views are unmounted.
	errs = append(errs, recoverLocks(spec), fdtree.RemoveAll(ctx, filepath.Join(spec.RunDir, "packs")))
	errs = append(errs, removeIfThere(layout.ShimSocket(spec.RunDir)), removeIfThere(resolvConf(spec)), fdtree.RemoveAll(ctx, filepath.Join(spec.RunDir, "inside")))
	for _, d := range []string{gitMount(spec), upperMount(spec), upperDir(spec), stateDir(spec)} {
		errs = append(errs, removeIfThere(d))
	}
	return errors.Join(errs...)
}

// fsName returns the source of a view's mount, the first column of /proc/mounts.
func fsName(spec wire.Spec) string { return "polis:" + spec.Agent }
