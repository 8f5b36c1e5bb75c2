package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/shim/heap"
	"polis/fusefs"
	"polis/fusefs/gitdir"
	"polis/fusefs/ignore"
	"polis/fusefs/overlayfs"
	"polis/fusefs/shared"
	"polis/fusefs/view"
	"polis/lockd"
	"polis/netbridge"
)

// views are the agent's file systems: the tree, and the shared git directory with rules of its
// own.
type views struct {
	tree  *fusefs.FS
	guard *view.Guard
	paths *shared.Paths // of the project's that the tree shows; nil for none
	git   *fusefs.FS
	gitg  *gitdir.Guard
	lost  losses
	// behind are files that changed on the target while the agent waited for them.
	behind behinds
	locks  *lockd.Client
	whys   *view.Why
	dead   chan struct{}
	// waited is how long the agent waited for leases of others, in nanoseconds.
	waited atomic.Int64
	// probes are refusals that need no attention; see isProbe.
	probes *view.Why

	// content is the directory of the agent's own files below the view, and merged the tree of
	// those and the base tree if the overlay is above the view, else nil.
	content *os.File
	merged  *overlayfs.Tree

	mu   sync.Mutex // of refs, and of tree while other goroutines may read it
	refs map[string]bool
}

func (s *Shim) openViews(ctx context.Context) error {
	sp := s.Spec
	leave, err := joinGroup(sp)
	s.onClose("control group", leave)
	if err != nil {
		return fmt.Errorf("control group of the shim: %w", err)
	}
	if err := writeResolvConf(sp, netbridge.DNSAddr().Addr().String()); err != nil {
		return err
	}
	v := &views{dead: make(chan struct{}), whys: view.NewWhy(), probes: view.NewWhy(), refs: map[string]bool{}}
	for _, r := range sp.OwnedRefs {
		v.refs[r] = true
	}
	s.views, s.collector = v, heap.Watch()
	if err := s.openLocks(v); err != nil {
		return err
	}
	root, err := s.openBacking()
	if err != nil {
		return err
	}
	defer root.Close()
	own, err := s.openOwn(root) // before the view covers it
	if err != nil {
		return err
	}
	defer own.Close()
	if sp.Git {
		s.disk.begin(bounds{bytes: sp.DiskBytes, files: sp.DiskFiles})
	}
	if err := s.openTree(ctx, v, root); err != nil {
		return err
	}
	if sp.Git {
		if err := s.openGit(ctx, v); err != nil {
			return fmt.Errorf("git directory: %w", err)
		}
		// Without git the files are the user's own, and all agents share them.
		if err := s.openDisk(own); err != nil {
			return err
		}
	}
	var once sync.Once
	died := func(fs *fusefs.FS) {
		s.group.Go(func() error {
			fs.Wait()
			once.Do(func() { close(v.dead) })
			return nil
		})
	}
	died(v.tree)
	if v.git != nil {
		died(v.git)
	}
	return nil
}

func (s *Shim) openTree(ctx context.Context, v *views, root *os.File) error {
	sp := s.Spec
	set, err := compile(s.rules(sp.Settings), sp.TempNames)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	content, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("hold the directory below the view: %w", err)
	}
	v.content = os.NewFile(uintptr(content), sp.Tree)
	s.onClose("directory below the view", func(context.Context) error { return v.content.Close() })
	if err := s.openMerged(v, root); err != nil {
		return err
	}
	ic := ignore.Config{RootFD: int(root.Fd()), OnTooLarge: s.rulesTooLarge}
	vc := view.Config{
		Agent: sp.Agent, Locker: locker{c: v.locks, waited: &v.waited, times: &s.kept.leaseWaits, waits: &s.leaseWaits, waiting: s.noteWaiting, late: s.gotLate}, Exempt: sp.LocksExempt, GitFile: sp.Git, RootFD: int(root.Fd()), Store: storeName(sp), Below: sp.Shared != nil, ReadOnly: sp.ReadOnly,
		Now: time.Now, Log: s.Log, Quota: s.quota, Counted: s.disk.count, OnDenial: s.recordDenied, OnHidden: s.recordHidden, Refused: s.refusedByView, Deleting: s.deletingIf(sp.Git), Changes: s.changes, LeaseInfo: v.leaseInfo, Asker: s.pathAsker,
	}
	if v.merged != nil {
		ic.Open, vc.List = v.merged.Open, v.merged.List
	}
	if sp.Git {
		ic.IndexPath = filepath.Join(sp.BareRepo, "worktrees", sp.Agent, "index")
		ic.TrackedPath = s.at(sp.Tracked)
		ic.ExcludePath = filepath.Join(sp.PrivateGit, "info", "exclude")
		ic.Outside = s.gitFile
	}
	ig, err := ignore.New(ic)
	if err != nil {
		return fmt.Errorf("ignore rules: %w", err)
	}
	s.onClose("ignore rules", func(context.Context) error { return ig.Close() })
	s.openBreakers(ig)
	vc.Ignore = leaseless(sp, ig)
	if err := s.openTempFiles(&vc, ig, root); err != nil {
		return err
	}
	v.guard, err = view.New(vc, set)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	s.onClose("guard", func(context.Context) error { return v.guard.Close() })
	s.sweepTempFiles(v, vc.Temps)
	s.openCounters(v.guard)
	cfg := fusefs.Config{Roots: []int{int(root.Fd())}, Guard: v.guard, Mountpoint: s.at(sp.Mountpoint), FsName: fsName(sp), Log: s.Log,
		NoSetID: sp.AsUser, NoRing: sp.NoRing, Opened: git.Opened()}
	if err := s.openShared(&cfg, ig); err != nil {
		return fmt.Errorf("shared files: %w", err)
	}
	if !sp.Git {
		cfg.Timeout = -1 // the user and the other agents change the same files
	}
	cfg.Auditor = s.auditor()
	if err := s.belowOverlay(&cfg, v); err != nil {
		return err
	}
	tree, err := s.mount(ctx, "view", cfg)
	v.mu.Lock()
	v.tree = tree
	v.mu.Unlock()
	if err != nil {
		return err
	}
	return s.mountOverlay(ctx)
}

// stillOpen returns the files that are open although the rules or leases forbid it. It may be
// called at any time: leases exist before the view.
func (v *views) stillOpen() []string {
	v.mu.Lock()
	tree := v.tree
	v.mu.Unlock()
	if tree == nil {
		return nil
	}
	return tree.StillOpen()
}

func (s *Shim) mount(ctx context.Context, name string, cfg fusefs.Config) (*fusefs.FS, error) {
	cfg.OnFull = s.tooManyOpen
	cfg.OnIdle = s.collector.Free
	fs, err := fusefs.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := fs.Mount(ctx); err != nil {
		fs.Close()
		return nil, err
	}
	s.onClose(name, func(ctx context.Context) error { return fs.Unmount(ctx) })
	return fs, nil
}

// tooManyOpen reports that the agent's programs have as many files open as a view can serve. A
// single program reaches its own limit first (EMFILE; see sandbox.MaxFiles).
func (s *Shim) tooManyOpen(c fusefs.Caller, limit int) {
	s.denied(ofProcess(view.Denial{Time: time.Now(), Op: string(fusefs.OpOpenRead), Path: "any file", Code: view.CodeQuota, Errno: "ENFILE", Pid: c.Pid,
		Rule: fmt.Sprintf("the programs of this agent have %d files open together, and no more can be: three quarters of the open files of its shim (LimitNOFILE= of polis-agent@.service, or ulimit -n of polisd)", limit),
		Hint: "end programs that keep many files open, or ask for a higher limit"}))
}

// rulesTooLarge reports ignore rules that polis does not read because of their size.
func (s *Shim) rulesTooLarge(path string, err error) {
	if below, ok := strings.CutPrefix(path, s.Spec.PrivateGit+"/"); ok {
		path = ".git/" + below // info/exclude
	} else if filepath.IsAbs(path) {
		path = ".git/" + filepath.Base(path) // the index
	}
	s.denied(view.Denial{Time: time.Now(), Op: "ignore", Path: path, Code: string(api.CodeTooLarge), Errno: "EFBIG",
		Hint: err.Error() + "; until it is smaller polis takes nothing there for ignored, so files that git ignores take leases"})
}

func (v *views) ownedRefs() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]string, 0, len(v.refs))
	for r := range v.refs {
		out = append(out, r)
	}
	return out
}

func (v *views) whyFiles() (text, js string) { return string(v.whys.Text()), string(v.whys.JSON()) }

// why returns the last refusals as API types, newest first.
func (s *Shim) why() []api.WhyEntry {
	out := []api.WhyEntry{}
	for probe, list := range map[bool][]view.Denial{false: s.views.whys.Entries(), true: s.views.probes.Entries()} {
		for _, d := range list {
			e := api.WhyEntry{Time: d.Time, Op: d.Op, Path: api.EncodePath(d.Path), Code: api.Code(d.Code), Errno: d.Errno, Holder: d.Holder, Hint: d.Hint, Pid: int(d.Pid), Program: d.Program, Count: d.Count, Probe: probe, By: d.By, Reason: d.Reason, Rule: d.OwnRule()}
			if name := d.Shown(); name != d.Code {
				e.Shown = name
			}
			if !d.Since.IsZero() {
				e.Since = &d.Since
			}
			if !d.First.IsZero() {
				e.First = &d.First
			}
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b api.WhyEntry) int { return b.Time.Compare(a.Time) })
	return out
}

func (s *Shim) invalidate() {
	s.views.tree.InvalidateAll()
	s.forgetOverlay()
	s.showAnnounced()
	if open := s.views.stillOpen(); len(open) > 0 {
		s.Log.Warn("files are open that the rules deny; stop the programs that hold them", "count", len(open), "paths", open)
	}
	if s.views.git != nil {
		s.views.git.InvalidateAll()
	}
}
