package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/failpoint"
	"polis/daemon/layout"
	"polis/daemon/shim/wire"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
)

const (
	maxCheckLogs = 50               // files kept
	checkTail    = 4 << 10          // bytes of the output that an error carries
	checkMargin  = 90 * time.Second // what a shim may take beyond the command's own time
	checkUndo    = 60 * time.Second
)

// checker runs the check command on merge results, in a sandbox that is made
// for it and gone afterwards. A workspace has one at a time.
type checker struct {
	w     *workspace
	rules config.MergeRules
}

// name is that of the shim, and what a later daemon finds a left-over one by.
func (c checker) name() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.w.agents.Name)) //nolint:errcheck // never fails
	return fmt.Sprintf("%s%08x", agent.ReservedPrefix, h.Sum32())
}

// Check writes the files of a commit to a directory and runs the command there.
func (c checker) Check(ctx context.Context, commit, label string) (log string, err error) {
	shims, root, name := c.w.d.shims, c.w.agents.Root, c.name()
	fail := func(err error) (string, error) {
		return log, api.Errorf(api.CodeInternal, "run the check on the merge of %s: %w", label, err)
	}
	undo := func() error {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkUndo)
		defer cancel()
		err := shims.launcher.Stop(uctx, name, shims.run.Agent(name), time.Second)
		return errors.Join(err, shims.clear(uctx, known(name)), fdtree.RemoveAll(uctx, root.Check()))
	}
	if err := undo(); err != nil { // what a crash left
		return fail(err)
	}
	defer func() { err = errors.Join(err, undo()) }()
	spec, err := c.prepare(ctx, commit, name)
	if err != nil {
		return fail(err)
	}
	log = spec.Check.Log
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.Check.Timeout)+checkMargin)
	defer cancel()
	c.w.d.Log.Info("checking a merge", "workspace", c.w.agents.Name, "agent", label, "commit", commit)
	if err := shims.total(ctx); err != nil {
		return fail(err)
	}
	if err := shims.launcher.Start(ctx, name, shims.run.AgentSpec(name)); err != nil {
		return fail(err)
	}
	failpoint.Hit("check:running")
	res, err := c.await(ctx, name)
	switch {
	case err != nil:
		return fail(err)
	case res.Error != "":
		return fail(errors.New(res.Error))
	case res.TimedOut:
		return log, failed(log, fmt.Sprintf("the check did not end in %s", time.Duration(spec.Check.Timeout)))
	case res.OOM:
		return log, failed(log, fmt.Sprintf("the check ran out of memory (%d MB)", spec.MemoryBytes>>20))
	case res.ExitCode != 0:
		return log, failed(log, fmt.Sprintf("the check ended with exit code %d", res.ExitCode))
	}
	return log, nil
}

// failed is a check that says no, with the end of what it printed.
func failed(log, why string) error {
	e := api.Errorf(api.CodeCheckFailed, "%s", why).With("log", log).WithHint("its output is in %s; polisctl merge NAME --no-check merges without it", log)
	f, err := os.Open(log)
	if err != nil {
		return e
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil {
		b, rerr := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-checkTail), checkTail))
		if rerr == nil {
			return e.With("output", strings.ToValidUTF8(string(b), "?"))
		}
	}
	return e
}

// await waits for the shim's result, or its end.
func (c checker) await(ctx context.Context, name string) (res wire.CheckResult, err error) {
	shims := c.w.d.shims
	dir := shims.run.Agent(name)
	for {
		alive, err := shims.launcher.Alive(ctx, name, dir)
		if err != nil {
			return res, err
		}
		b, err := os.ReadFile(layout.CheckResult(dir))
		if err == nil {
			return res, json.Unmarshal(b, &res)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return res, err
		}
		if !alive {
			return res, fmt.Errorf("its shim ended without a result; see %s", filepath.Join(dir, "shim.log"))
		}
		select {
		case <-ctx.Done():
			return res, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// prepare makes the directories, fills the tree and writes the spec.
func (c checker) prepare(ctx context.Context, commit, name string) (wire.Spec, error) {
	d, ws := c.w.d, c.w.agents
	root, dir := ws.Root, d.shims.run.Agent(name)
	for _, p := range []string{root.Check(), dir, root.CheckLogs()} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			return wire.Spec{}, err
		}
	}
	tree, home, scratch := filepath.Join(root.Check(), "tree"), filepath.Join(root.Check(), "home"), filepath.Join(root.Check(), "scratch")
	for _, p := range []string{tree, home, scratch} {
		if err := ownedDir(p, ws.UID, ws.GID, 0o700); err != nil {
			return wire.Spec{}, err
		}
	}
	if err := c.w.git.Export(ctx, commit, tree); err != nil {
		return wire.Spec{}, err
	}
	if err := trimLogs(root.CheckLogs()); err != nil {
		return wire.Spec{}, err
	}
	if err := d.agents.Isolated(); err != nil {
		return wire.Spec{}, err
	}
	conf := d.live()
	memory := *c.rules.CheckMemoryMB
	if memory == 0 {
		memory = conf.Limits.MemoryMB
	}
	cg, delegated := d.shims.cgroup(name)
	user, inside := account(ws.UID)
	spec := wire.Spec{
		Version: wire.Version, Agent: name, Workspace: ws.Name, RunDir: dir, Tree: tree, Mountpoint: tree, ProjectPath: ws.Project,
		UID: ws.UID, GID: ws.GID, User: user, Home: inside, HomeDir: home, Scratch: scratch, LogDir: root.CheckLogs(),
		Mounts:     append(slices.Clone(conf.Sandbox.ExtraMounts), c.shared(conf, tree)...),
		CgroupPath: cg, Delegated: delegated, MemoryBytes: int64(memory) << 20, Pids: int64(conf.Limits.Pids), CPUWeight: int64(conf.Limits.CPUWeight),
		StopGrace: conf.Limits.StopGrace, LogBytes: int64(conf.Limits.LogMB) << 20, Created: time.Now(),
		Check: &wire.Check{Command: []string{"sh", "-ec", *c.rules.Check}, Timeout: *c.rules.CheckTimeout,
			Log: filepath.Join(root.CheckLogs(), time.Now().UTC().Format("20060102T150405.000000")+"-"+commit[:12]+".log")},
	}
	spec.Lost, spec.UserNamespaces = d.lostNames(), conf.Sandbox.UserNamespaces
	return spec, store.WriteSummed(d.shims.run.AgentSpec(name), spec)
}

// shared are directories of the project that no commit has and that agents
// see, too (node_modules), for reading.
func (c checker) shared(conf config.Config, tree string) []wire.Mount {
	var out []wire.Mount
	for _, p := range conf.Shared.Paths {
		if strings.ContainsAny(p, `*?[]\!/`) {
			continue
		}
		from := filepath.Join(c.w.agents.Project, p)
		if fi, err := os.Lstat(from); err != nil || !fi.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(tree, p)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, wire.Mount{Source: from, Dest: from, ReadOnly: true})
		}
	}
	return out
}

// trimLogs keeps the newest logs; their names sort by time.
func trimLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for len(entries) >= maxCheckLogs {
		if err := os.Remove(filepath.Join(dir, entries[0].Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		entries = entries[1:]
	}
	return nil
}
