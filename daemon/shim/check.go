package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"polis/cgroup/sandbox"
	"polis/daemon/api/wire"
	"polis/daemon/host/private"
	"polis/daemon/store/layout"
)

// checkUndo bounds removing a check's sandbox.
const checkUndo = 30 * time.Second

// RunCheck runs the one command of spec.Check in a fresh sandbox: no view, no leases, a home of its
// own, and no network unless it is a setup command. It writes the result to a file for polisd.
func RunCheck(ctx context.Context, spec wire.Spec, log *slog.Logger) error {
	res, err := check(ctx, spec, log)
	if err != nil {
		res.Error = err.Error()
	}
	b, merr := json.Marshal(res)
	if merr != nil {
		return merr
	}
	path := layout.CheckResult(spec.RunDir)
	if werr := os.WriteFile(path+".new", b, 0o600); werr != nil {
		return errors.Join(err, werr)
	}
	return errors.Join(err, os.Rename(path+".new", path))
}

func check(ctx context.Context, spec wire.Spec, log *slog.Logger) (res wire.CheckResult, err error) {
	self, err := os.Executable()
	if err != nil {
		return res, err
	}
	s := &Shim{Spec: spec, Log: log}
	closePlaces, err := s.openPlaces()
	if err != nil {
		return res, err
	}
	defer closePlaces()
	leave, err := joinGroup(spec)
	if err != nil {
		return res, err
	}
	undo := func(f func(context.Context) error) {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkUndo)
		defer cancel()
		err = errors.Join(err, f(uctx))
	}
	defer undo(leave)
	network, err := openSetupNetwork(ctx, spec, log)
	if err != nil {
		return res, err
	}
	defer undo(network.close)
	hostname, env, resolv := "check", []string{"CI=true", "POLIS_CHECK=1"}, ""
	if spec.Check.Setup {
		hostname, env, resolv = "setup", append([]string{"CI=true", "POLIS_SETUP=1"}, s.searchPath()...), resolver(spec)
	}
	o, err := s.openCheckSources()
	if err != nil {
		return res, err
	}
	defer o.close()
	box, err := sandbox.Create(ctx, sandbox.Config{
		ID: sandboxID(spec), StateDir: stateDir(spec), RootfsDir: rootfsDir(spec),
		UID: spec.UID, GID: spec.GID, User: spec.User, Home: spec.Home, HomeDir: spec.HomeDir, HomeOpen: o.home, ScratchDir: scratchOf(spec, o), ScratchOpen: o.scratch,
		Mounts: o.mounts, Workdir: spec.ProjectPath, Hostname: hostname, Env: append(env, spec.Env...), NetNS: spec.NetNS, ResolvConf: resolv,
		CgroupPath: spec.CgroupPath, Limits: sandboxLimits(limitsOf(spec.Settings)),
		InitBinary: self, Log: log,
		UserNamespaces: spec.UserNamespaces, Shared: sharedWith(spec),
	})
	if err != nil {
		return res, err
	}
	defer undo(box.Destroy)
	if err := setWeights(ctx, spec, limitsOf(spec.Settings)); err != nil {
		return res, err
	}
	if _, err := sd.SdNotify(false, sd.SdNotifyReady+"\nSTATUS=running a "+hostname+" command"); err != nil {
		log.Warn("systemd not notified", "err", err)
	}
	return runCheck(ctx, spec, s.at(spec.Check.Log), box, network)
}

func runCheck(ctx context.Context, spec wire.Spec, log string, box *sandbox.Sandbox, network *setupNetwork) (res wire.CheckResult, err error) {
	if err := private.Dir(filepath.Dir(log)); err != nil {
		return res, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, w, err := os.Pipe()
	if err != nil {
		return res, err
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.Check.Timeout))
	defer cancel()
	proc, err := box.Start(sandbox.Process{Args: spec.Check.Command, Stdout: w, Stderr: w})
	_ = w.Close() //nolint:errcheck // our copy of the child's end
	if err != nil {
		return res, err
	}
	copied := make(chan error, 1)
	go func() { copied <- copyBounded(file, r, spec.LogBytes) }()
	select {
	case <-proc.Done():
	case <-ctx.Done():
		res.TimedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
	}
	// Background processes are killed too, and with them the pipe's last writer.
	kctx, stop := context.WithTimeout(context.WithoutCancel(ctx), checkUndo)
	defer stop()
	if err := box.Kill(kctx); err != nil {
		return res, err
	}
	res.ExitCode, err = proc.Wait()
	if cerr := errors.Join(<-copied, network.report(file)); cerr != nil {
		err = errors.Join(err, fmt.Errorf("write the log: %w", cerr))
	}
	select {
	case _, killed := <-box.OOM():
		res.OOM = killed
	default:
	}
	if err == nil && !res.TimedOut && ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	return res, err
}

// copyBounded keeps the first limit bytes and discards the rest, so that the command never blocks
// on its log.
func copyBounded(to io.Writer, from io.Reader, limit int64) error {
	n, err := io.Copy(to, io.LimitReader(from, limit))
	if err == nil && n == limit {
		_, err = fmt.Fprintf(to, "\n[polis: only the first %d bytes are kept]\n", limit)
	}
	_, rerr := io.Copy(io.Discard, from)
	return errors.Join(err, rerr)
}
