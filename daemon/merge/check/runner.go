package check

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// MaxLogs is how many logs a workspace keeps.
	MaxLogs   = 50
	checkUndo = 60 * time.Second
)

// Runner runs the check command of a workspace on merge results, each in a sandbox
// that is made for it and gone afterwards. A workspace has one at a time.
type Runner struct {
	Workspace string
	Root      layout.Workspace
	// Project is the recorded user's checkout, whose shared directories the command may read.
	Project  pinned.Record
	UID, GID int
	Rules    config.MergeRules
	Config   config.Config
	Shims    job.Shims
	// Sandbox returns what the spec says of the sandbox and its limits beside what
	// this package fills in. An error refuses the check.
	Sandbox func(name string) (wire.Spec, error)
	// Export writes the files of a commit to an empty directory.
	Export func(ctx context.Context, commit, dir string) error
	// Prepare returns where the files in dir/tree show with what the setup command of the project made
	// for such a commit. Release ends that, and is called before dir is removed; dir can be missing.
	Prepare func(ctx context.Context, commit, dir string) (string, error)
	Release func(dir string) error
	// Hooks returns the git hooks of the project that run before the command; nil: none run.
	Hooks func(ctx context.Context) (*Hooks, error)
	Log   *slog.Logger
}

// name is that of the shim, and what a later daemon finds a left-over one by.
func (c *Runner) name() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.Workspace)) //nolint:errcheck // never fails
	return fmt.Sprintf("%s%08x", layout.CheckPrefix, h.Sum32())
}

// Check writes the files of a commit to a directory and runs the command there.
func (c *Runner) Check(ctx context.Context, commit, label string) (log string, err error) {
	name := c.name()
	fail := func(err error) (string, error) {
		return log, api.Errorf(api.CodeInternal, "run the check on the merge of %s: %w", label, err)
	}
	undo := func() error {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkUndo)
		defer cancel()
		if err := errors.Join(c.Shims.Clear(uctx, name), c.Release(c.Root.Check())); err != nil {
			return err // what is mounted must not be removed
		}
		return fdtree.RemoveAll(uctx, c.Root.Check())
	}
	if err := undo(); err != nil { // what a crash left
		return fail(err)
	}
	defer func() { err = errors.Join(err, undo()) }()
	spec, err := c.prepare(ctx, commit, name)
	if api.CodeOf(err) == api.CodeCheckFailed {
		return log, err
	}
	if err != nil {
		return fail(err)
	}
	if spec.Check == nil {
		return "", nil // there is no command, and no hook
	}
	log = spec.Check.Log
	c.Log.Info("checking a merge", "workspace", c.Workspace, "agent", label, "commit", commit)
	res, err := job.Job{Shims: c.Shims, Spec: spec, Started: func() { failpoint.Hit("check:running") }}.Run(ctx)
	if err != nil {
		return fail(err)
	}
	if why := job.Failure("the check", spec, res); why != "" {
		return log, c.failed(log, why, res.ExitCode)
	}
	return log, nil
}

// failed is the error of a check that fails, with the end of its output. Package queue knows whose it is, and adds the
// hint.
func (c *Runner) failed(log, why string, exit int) error {
	output, hook := job.Tail(log), ""
	if c.Hooks != nil && exit == 1 {
		hook = refusedBy(output)
	}
	if hook != "" {
		why = "the git hook " + hook + " of the project refuses the merge"
	}
	e := api.Errorf(api.CodeCheckFailed, "%s", why).With("log", log)
	if output != "" {
		e = e.With("output", output)
	}
	if hook != "" {
		e = e.With(api.DetailHook, hook)
	}
	return e
}

// prepare makes the directories, fills the tree and writes the spec.
func (c *Runner) prepare(ctx context.Context, commit, name string) (wire.Spec, error) {
	root, dir := c.Root, c.Shims.Dir(name)
	if err := errors.Join(private.Within(root.Check()), private.Dir(root.CheckLogs())); err != nil {
		return wire.Spec{}, err
	}
	tree, home, scratch := filepath.Join(root.Check(), "tree"), filepath.Join(root.Check(), "home"), filepath.Join(root.Check(), "scratch")
	for _, p := range []string{tree, home, scratch} {
		if err := private.Owned(p, c.UID, c.GID); err != nil {
			return wire.Spec{}, err
		}
	}
	command, err := c.command(ctx, commit, home)
	if err != nil || command == "" {
		return wire.Spec{}, err
	}
	if err := c.Export(ctx, commit, tree); err != nil {
		return wire.Spec{}, err
	}
	tree, err = c.Prepare(ctx, commit, root.Check())
	if err != nil {
		return wire.Spec{}, err
	}
	if err := job.TrimLogs(root.CheckLogs(), MaxLogs); err != nil {
		return wire.Spec{}, err
	}
	memory := *c.Rules.CheckMemoryMB
	if memory == 0 {
		memory = c.Config.Limits.MemoryMB
	}
	spec, err := c.Sandbox(name)
	if err != nil {
		return spec, err
	}
	limits := c.Config.Limits
	spec.Version, spec.Agent, spec.Workspace, spec.RunDir, spec.Created = wire.Version, name, c.Workspace, dir, time.Now()
	spec.State, spec.Project = root.Dir(), c.Project
	spec.Tree, spec.Mountpoint, spec.ProjectPath = tree, tree, c.Project.Path
	spec.UID, spec.GID, spec.HomeDir, spec.Scratch, spec.LogDir = c.UID, c.GID, home, scratch, root.CheckLogs()
	spec.Mounts = slices.Clone(c.Config.Sandbox.ExtraMounts)
	spec.MemoryBytes, spec.Pids, spec.CPUWeight = int64(memory)<<20, int64(limits.Pids), int64(limits.CPUWeight)
	spec.StopGrace, spec.LogBytes, spec.UserNamespaces = limits.StopGrace, int64(limits.LogMB)<<20, c.Config.Sandbox.UserNamespaces
	spec.Check = &wire.Check{Shared: c.shared(tree), Command: []string{"sh", "-ec", command}, Timeout: *c.Rules.CheckTimeout,
		Log: filepath.Join(root.CheckLogs(), job.LogName(time.Now(), commit))}
	return spec, nil
}

// command returns what runs: the hooks, then the command.
func (c *Runner) command(ctx context.Context, commit, home string) (script string, err error) {
	if c.Hooks == nil {
		return *c.Rules.Check, nil
	}
	h, err := c.Hooks(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if script, err = h.prepare(ctx, commit, home, c.UID, c.GID); err != nil {
		return "", err
	}
	return script + *c.Rules.Check, nil
}

// shared are names of directories of the project that no commit has and that agents
// see, too (node_modules), for reading. The shim opens them.
func (c *Runner) shared(tree string) []string {
	project, err := c.Project.OpenDir()
	if err != nil {
		return nil // the shim refuses it
	}
	defer project.Close()
	var out []string
	for _, p := range c.Config.Shared.Paths {
		if strings.ContainsAny(p, `*?[]\!/`) || !filepath.IsLocal(p) || p == "." {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(project.Fd()), p, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if _, err := os.Lstat(filepath.Join(tree, p)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, p)
		}
	}
	return out
}
