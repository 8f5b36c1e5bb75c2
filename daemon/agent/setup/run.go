package setup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/host/private"
	"polis/daemon/shim/job"
	"polis/daemon/store/layout"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
	"polis/internal/pinned"
)

const (
	keptLogs = 20
	undoTime = 2 * time.Minute
	// reserve is what a run leaves free of the file system.
	reserve = 256 << 20
)

// Runner runs the setup command of a workspace in a sandbox. A workspace has one run at a time.
type Runner struct {
	Workspace string
	Root      layout.Workspace
	// Project returns the recorded project, which a person can replace.
	Project  func() pinned.Record
	UID, GID int
	Config   func() config.Config
	Store    *Store
	Trees    Trees
	Shims    job.Shims
	// Sandbox returns what the spec says of the sandbox and its network besides what this package fills
	// in. An error refuses the run.
	Sandbox func(ctx context.Context, name string) (wire.Spec, error)
	Log     *slog.Logger
}

// name is that of the shim, by which a later daemon finds one that is left.
func (r *Runner) name() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Workspace)) //nolint:errcheck // never fails
	return fmt.Sprintf("%s%08x", layout.SetupPrefix, h.Sum32())
}

// Reset removes the sandbox of a run.
func (r *Runner) Reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return r.Shims.Clear(ctx, r.name())
}

// Environment is what the result depends on besides the command and its inputs.
func (r *Runner) Environment() []string {
	c := r.Config()
	system, err := os.ReadFile("/etc/os-release")
	if err != nil {
		r.Log.Debug("operating system not read", "err", err)
	}
	return []string{r.Project().Path, string(system), fmt.Sprintf("%q", c.Sandbox.Path), fmt.Sprintf("%+v", c.Sandbox.ExtraMounts), fmt.Sprint(r.UID, c.Sandbox.UserNamespaces)}
}

// Run runs the command for a git tree, and stores what it made. The returned record has the log also
// after an error.
func (r *Runner) Run(ctx context.Context, key, tree string) (rec Record, err error) {
	began := time.Now()
	id, dir, err := r.Store.begin(key)
	if err != nil {
		return rec, unable(err)
	}
	defer func() {
		if err == nil {
			return
		}
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if uerr := errors.Join(r.Shims.Clear(uctx, r.name()), r.Trees.UnmountSetup(dir), fdtree.RemoveAll(uctx, dir)); uerr != nil {
			r.Log.Error("failed setup not undone", "workspace", r.Workspace, "op", "setup", "path", dir, "err", uerr)
		}
	}()
	failpoint.Hit("setup:directory")
	rules := r.rules()
	rec = Record{Version: recordVersion, ID: id, Key: key, Tree: tree, Run: *rules.Run}
	merged, upper, err := r.Trees.MountSetup(ctx, dir, tree)
	if err != nil {
		return rec, unable(err)
	}
	failpoint.Hit("setup:mounted")
	spec, err := r.spec(ctx, rules, dir, merged, key)
	if err != nil {
		return rec, unable(err)
	}
	rec.Log = spec.Check.Log
	disk := &space{max: int64(*rules.DiskMB) << 20, dirs: []string{upper, spec.HomeDir, spec.Scratch}}
	res, err := job.Job{Shims: r.Shims, Spec: spec, Started: func() { failpoint.Hit("setup:running") }, Watch: disk.check}.Run(ctx)
	if err != nil {
		return rec, failed(rec.Log, err)
	}
	if why := job.Failure("the command", spec, res); why != "" {
		return rec, failed(rec.Log, errors.New(why))
	}
	failpoint.Hit("setup:ran")
	// The shim has killed the processes of the command, and ends now.
	if err := r.Shims.Clear(ctx, r.name()); err != nil {
		return rec, unable(err)
	}
	if err := disk.measure(ctx); err != nil {
		return rec, failed(rec.Log, err)
	}
	outputs, err := r.Trees.SetupOutputs(ctx, dir, tree)
	if err != nil {
		return rec, unable(err)
	}
	got, err := collect(ctx, dir, outputs, cleaning{uid: r.UID, gid: r.GID, room: int64(*rules.DiskMB) << 20})
	if err != nil {
		return rec, failed(rec.Log, err)
	}
	failpoint.Hit("setup:collected")
	if got.files == 0 {
		return rec, failed(rec.Log, errors.New("the command made no file that git ignores")).WithHint("only files that git ignores are shared: add them to .gitignore")
	}
	rec.Outputs, rec.Sum, rec.Bytes, rec.Files, rec.Dropped, rec.Drops = got.outputs, got.sum, got.bytes, got.files, got.dropped, got.drops
	rec.Made = time.Now().UTC()
	rec.Compared, rec.Took = rec.Made, time.Since(began).Milliseconds()
	if err := r.Store.finish(ctx, rec); err != nil {
		return rec, unable(err)
	}
	r.Log.Info("setup made", "workspace", r.Workspace, "op", "setup", "path", r.Store.path(id), "files", rec.Files, "bytes", rec.Bytes, "dropped", rec.Dropped, "took", time.Since(began))
	return rec, nil
}

func (r *Runner) rules() config.SetupRules {
	c := r.Config()
	return c.SetupRules(r.Workspace)
}

// failed is the error of a run whose command is the reason, with the end of its output.
func failed(log string, err error) *api.Error {
	e := api.Errorf(api.CodeSetupFailed, "run the setup command: %w", err).With("log", log).WithHint("polisctl setup log shows its output; agents start without its files")
	if output := job.Tail(log); output != "" {
		e = e.With("output", output)
	}
	return e
}

// unable is the error of a run that polis itself could not do.
func unable(err error) *api.Error {
	return api.Errorf(api.CodeSetupFailed, "run the setup command: %w", err).WithHint("agents start without its files; polisctl setup run tries it again")
}

// spec makes the directories of the sandbox and describes it.
func (r *Runner) spec(ctx context.Context, rules config.SetupRules, dir, merged, key string) (wire.Spec, error) {
	name, logs := r.name(), r.Root.SetupLogs()
	home, scratch := filepath.Join(dir, "home"), filepath.Join(dir, "scratch")
	for _, p := range []string{home, scratch} {
		if err := private.Owned(p, r.UID, r.GID); err != nil {
			return wire.Spec{}, err
		}
	}
	if err := private.Dir(logs); err != nil {
		return wire.Spec{}, err
	}
	if err := job.TrimLogs(logs, keptLogs); err != nil {
		return wire.Spec{}, err
	}
	spec, err := r.Sandbox(ctx, name)
	if err != nil {
		return spec, err
	}
	c := r.Config()
	reach, err := c.Reach("", config.BaseType{}, config.Own{Egress: rules.Egress})
	if err != nil {
		return spec, err
	}
	memory := *rules.MemoryMB
	if memory == 0 {
		memory = c.Limits.MemoryMB
	}
	spec.Version, spec.Agent, spec.Workspace, spec.RunDir, spec.Created = wire.Version, name, r.Workspace, r.Shims.Dir(name), time.Now()
	spec.State, spec.Project = r.Root.Dir(), r.Project()
	spec.Tree, spec.Mountpoint, spec.ProjectPath = merged, merged, spec.Project.Path
	spec.UID, spec.GID, spec.HomeDir, spec.Scratch, spec.LogDir = r.UID, r.GID, home, scratch, logs
	spec.Mounts, spec.Path = slices.Clone(c.Sandbox.ExtraMounts), c.Sandbox.Path
	spec.MemoryBytes, spec.Pids, spec.CPUWeight = int64(memory)<<20, int64(c.Limits.Pids), int64(c.Limits.CPUWeight)
	spec.StopGrace, spec.LogBytes, spec.UserNamespaces = c.Limits.StopGrace, int64(c.Limits.LogMB)<<20, c.Sandbox.UserNamespaces
	spec.Egress = reach.Policy.Entries()
	for _, p := range reach.Private {
		spec.Private = append(spec.Private, p.String())
	}
	spec.Check = &wire.Check{Command: []string{"sh", "-ec", *rules.Run}, Timeout: *rules.Timeout, Setup: true, Log: filepath.Join(logs, job.LogName(time.Now(), key))}
	return spec, nil
}

// space bounds what a run takes on the disk. The files are measured when the file system has filled
// by a part of the bound since the last time.
type space struct {
	max      int64
	dirs     []string
	measured bool
	free     int64 // when it was measured
}

func (s *space) check(ctx context.Context) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dirs[0], &st); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	free := int64(st.Bavail) * st.Bsize
	if free < reserve {
		return fmt.Errorf("the disk is nearly full: %d MiB are free", free>>20)
	}
	if s.measured && s.free-free < s.max/16 {
		return nil
	}
	s.measured, s.free = true, free
	return s.measure(ctx)
}

func (s *space) measure(ctx context.Context) error {
	total := int64(0)
	for _, dir := range s.dirs {
		n, err := usage(ctx, dir)
		if err != nil {
			return err
		}
		if total += n; total > s.max {
			return fmt.Errorf("the command wrote more than %d MiB (disk_mb of [workspace.setup])", s.max>>20)
		}
	}
	return nil
}
