package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/seccomp"
	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/cgroup/unotify"
)

// undoTime bounds the clean-up after a failed Create, which must not depend on
// the context that may have ended it.
const undoTime = 10 * time.Second

// dyingTime is how long Create waits for an earlier sandbox of the same name
// to be gone.
const dyingTime = 2 * time.Second

// Sandbox is a set of namespaces with its process 1. Its methods may be called
// from several goroutines.
type Sandbox struct {
	cfg        Config
	container  *libcontainer.Container
	group      *cgroup.Group
	alive      *os.File // process 1 holds the other end and ends when this one is closed
	initPid    int
	initDone   chan struct{} // closed when process 1 was reaped
	ooms       chan OOMEvent
	supervisor *unotify.Supervisor // nil if denied calls are not audited
	refusals   chan RefusedCall
	missed     atomic.Int64 // refused calls that are not in it
	stalled    atomic.Bool  // nothing was received for refusedWait
	stopWatch  context.CancelFunc
	stopReap   context.CancelFunc
	work       sync.WaitGroup // the goroutines that wait for processes and watch memory
	// starts is held for reading while a process is started, until it is in running.
	starts sync.RWMutex

	mu      sync.Mutex
	ended   bool           // no process may be started any more
	killed  map[int]killed // processes of Start that died of SIGKILL, for naming an OOM victim
	running map[int]bool   // processes of Start that a goroutine waits for
}

// Create creates the namespaces, the control group, the root file system and process 1. If it
// fails it leaves nothing behind. Errors wrap [ErrConfig], [ErrNamespace] or [ErrCgroup]. If ctx
// ends, started processes are killed.
func Create(ctx context.Context, cfg Config) (*Sandbox, error) {
	if !seccomp.Enabled {
		return nil, fmt.Errorf("create sandbox: %w: %w", ErrNamespace, ErrNoSeccomp)
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	host, err := cgroup.Detect()
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w: %w", ErrCgroup, err)
	}
	group, err := host.Group(cfg.CgroupPath)
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w: %w", ErrCgroup, err)
	}
	// A crash may have left an earlier one: clean before start.
	if err := awaitEmpty(ctx, group); err != nil {
		return nil, fmt.Errorf("create sandbox: %w: %w", ErrCgroup, err)
	}
	if err := Cleanup(ctx, cfg.StateDir, cfg.ID, cfg.RootfsDir, cfg.CgroupPath); err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	s, err := attempt(ctx, cfg, group)
	if err == nil || !cfg.ReportDenied || !errors.Is(err, ErrNamespace) || ctx.Err() != nil {
		return s, err
	}
	// The cause may be the listener: this process may be below one already, libseccomp may be too
	// old, or the kernel may not allow to take descriptors. Without it the same calls are denied.
	cfg.ReportDenied = false
	s, without := attempt(ctx, cfg, group)
	if without != nil {
		return nil, err
	}
	cfg.Log.Warn("denied system calls are not audited", "op", "sandbox.create", "err", err)
	return s, nil
}

// attempt creates a sandbox, or leaves nothing behind.
func attempt(ctx context.Context, cfg Config, group *cgroup.Group) (*Sandbox, error) {
	s := &Sandbox{
		cfg: cfg, group: group, initDone: make(chan struct{}), ooms: make(chan OOMEvent, 16),
		refusals: make(chan RefusedCall, refusalsBuffer), killed: make(map[int]killed), running: make(map[int]bool),
	}
	if err := s.create(ctx); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		return nil, errors.Join(err, s.release(undo))
	}
	return s, nil
}

// awaitEmpty waits for dying processes of a group; it takes a moment after the creator's end.
// Processes that stay alive belong to another program and are not killed.
func awaitEmpty(ctx context.Context, group *cgroup.Group) error {
	ctx, cancel := context.WithTimeout(ctx, dyingTime)
	defer cancel()
	for {
		procs, err := group.Procs()
		if err != nil || len(procs) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("group %s has %d processes: %w: %w", group.Path, len(procs), cgroup.ErrBusy, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Sandbox) create(ctx context.Context) error {
	if err := s.ensureGroup(); err != nil {
		return fmt.Errorf("create sandbox: %w: %w", ErrCgroup, err)
	}
	if err := s.cfg.prepareRootfs(); err != nil {
		return fmt.Errorf("create sandbox: root directory: %w: %w", ErrNamespace, err)
	}
	if err := s.cfg.makePoints(); err != nil {
		return fmt.Errorf("create sandbox: %w: %w", ErrNamespace, err)
	}
	spec, err := s.cfg.spec(s.openSupervisor())
	if err != nil {
		return fmt.Errorf("create sandbox: %w: %w", ErrNamespace, err)
	}
	s.container, err = libcontainer.Create(s.cfg.StateDir, s.cfg.ID, spec)
	if err != nil {
		return classify("create sandbox", err)
	}
	if err := s.startInit(ctx); err != nil {
		return err
	}
	if s.cfg.Shared.PID {
		var reaping context.Context
		reaping, s.stopReap = context.WithCancel(context.WithoutCancel(ctx))
		if err := s.startReaper(reaping); err != nil {
			return fmt.Errorf("create sandbox: %w: %w", ErrNamespace, err)
		}
	}
	return s.watchMemory()
}

// startInit starts process 1 and waits until it runs.
func (s *Sandbox) startInit(ctx context.Context) error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create sandbox: %w: %w", ErrNamespace, err)
	}
	defer theirs.Close()
	s.alive = ours
	init := &libcontainer.Process{
		Args: []string{initPath},
		// No program reads it, but it is visible to root in /proc.
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/"},
		UID: s.cfg.UID, GID: s.cfg.GID,
		Cwd:        "/",
		ExtraFiles: []*os.File{theirs}, // descriptor 3
		Init:       true,
	}
	if s.cfg.Shared.PID {
		init.Args = append(init.Args, "shared")
		if kill, err := s.group.KillFile(); err == nil {
			defer kill.Close()
			init.ExtraFiles = append(init.ExtraFiles, kill) // descriptor 4
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("create sandbox: %w: %w", ErrCgroup, err)
		}
	}
	// libcontainer cannot be interrupted: the process that it waits for is killed.
	stop := context.AfterFunc(ctx, func() {
		kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if err := s.group.Kill(kill); err != nil {
			s.cfg.Log.Warn("cannot stop a sandbox that is being made", "op", "sandbox.create", "err", err)
		}
	})
	err = s.cfg.inStage(func() error { return s.container.Run(init) })
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if pid, perr := init.Pid(); perr == nil && pid > 0 {
		s.initPid = pid
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			defer close(s.initDone)
			_, _ = init.Wait() // how process 1 ended does not matter, only that it did
		}()
	}
	if err != nil {
		return classify("create sandbox", err)
	}
	if err := s.awaitInit(ctx); err != nil {
		return fmt.Errorf("create sandbox: process 1: %w: %w", ErrNamespace, err)
	}
	s.spareInit()
	return nil
}

// awaitInit waits until process 1 has executed its program. libcontainer returns before that, and
// the execution may fail.
func (s *Sandbox) awaitInit(ctx context.Context) error {
	file := filepath.Join("/proc", strconv.Itoa(s.initPid), "comm")
	for {
		name, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if string(name) == "polis:init\n" {
			return nil
		}
		select {
		case <-s.initDone:
			return fmt.Errorf("%s: %w", s.cfg.InitBinary, ErrGone)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// spareInit protects process 1 from the OOM killer, both when it chooses a process of the group
// and when it kills the group as a whole. The lowest score needs CAP_SYS_RESOURCE; without it the
// neutral one is used, which makes no difference for a megabyte of memory.
func (s *Sandbox) spareInit() {
	file := filepath.Join("/proc", strconv.Itoa(s.initPid), "oom_score_adj")
	var err error
	for _, score := range []string{"-1000", "0"} {
		if err = os.WriteFile(file, []byte(score), 0); err == nil {
			return
		}
	}
	s.cfg.Log.Warn("process 1 is not spared when memory runs out", "op", "sandbox.create", "path", file, "err", err)
}

// InitPid is process 1 as the host counts.
func (s *Sandbox) InitPid() int { return s.initPid }

// Done is closed when process 1 has ended and with it everything inside.
func (s *Sandbox) Done() <-chan struct{} { return s.initDone }

// Pids returns the processes inside as the host counts, process 1 among them.
func (s *Sandbox) Pids() ([]int, error) { return s.group.Procs() }

// Group is the sandbox's control group.
func (s *Sandbox) Group() *cgroup.Group { return s.group }

// Signal sends a signal to every process inside but process 1: an orderly end of all of them
// before Destroy.
func (s *Sandbox) Signal(sig unix.Signal) error {
	pids, err := s.Pids()
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range pids {
		if pid == s.initPid {
			continue
		}
		if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("signal process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}
