package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/relisten"
	"polis/daemon/rules/approval"
	"polis/daemon/shim/breaker"
	"polis/daemon/shim/heap"
	"polis/daemon/shim/leftover"
	"polis/daemon/shim/opens"
	"polis/daemon/shim/tally"
	"polis/daemon/store/events"
	"polis/daemon/store/layout"
	"polis/fusefs/changed"
	"polis/fusefs/ignore"
	"polis/netbridge"
)

// Shim serves one agent. Set Spec and Log, then Open, Serve and Close.
type Shim struct {
	Spec wire.Spec
	Log  *slog.Logger

	state   *os.File // the directory of the workspace; see state.go
	project *os.File // while the shim starts

	ctx       context.Context
	group     *errgroup.Group
	events    *events.Hub
	views     *views
	collector *heap.Collector
	opens     *opens.Recorder        // nil: opens are not recorded
	auditTask atomic.Pointer[string] // the task of the main command
	recording atomic.Bool            // a policy is learned from what is recorded
	sandbox   *sandbox.Sandbox
	activity  *activity // nil in the host's network
	ns        *netbridge.NS
	dns       *netbridge.DNS
	ports     *ports
	leftovers *leftover.Tracker
	approvals *approval.Queue
	hookEnv   []string // of the agent's programs; set before the sandbox is made
	said      bool     // its program reads texts of persons at calls of tools; set before the sandbox is made
	// toolNames are the names that the agent's program has for its tools.
	toolNames  approval.Names
	memoryAsks memoryAsks
	pathAsker  *pathAsker
	covers     covers
	// toolRules answer questions before a person does.
	toolRules atomic.Pointer[approval.Rules]
	out       *logFile
	server    *http.Server
	listener  net.Listener
	sockets   relisten.Keeper
	inside    *insideAPI
	stopping  chan struct{}
	started   time.Time
	sessions  atomic.Int64
	// connections is the most connections that the agent may have; 0 sets no limit.
	connections atomic.Int64

	// vars is Spec.Vars, until the variables are changed.
	vars atomic.Pointer[[]string]

	tally         *tally.Tally
	hostPorts     *hostPorts // nil in the host's network
	models        models
	senders       sync.Mutex // held while it is found who sends a request to a model
	probeEvents   limit
	statusUpdates limit
	leaseWaits    leaseWaits
	kept          keptCounters
	freezer       freezer
	changes       *changed.Set // what the view has changed
	announced     announced
	snapshots     snapshots
	breakers      breaker.Set
	newBreakers   chan struct{} // their limits have changed
	// tracked is which paths git tracks, gitPrograms are the machine's git: see deleting.
	tracked     *ignore.Matcher
	gitPrograms []os.FileInfo
	// questionEvents bounds the events of new and withdrawn questions.
	questionEvents limit
	omitting       atomic.Bool  // some are left out, which is reported soon
	egress         *egressGuard // nil if the agent's network has no gate

	// stepping is the main command while it runs, if it is a task.
	stepping atomic.Pointer[session]

	doneMu    sync.Mutex // one end of a task is saved at a time; taken before mu
	mu        sync.Mutex
	main      *session
	raw       *logFile // nil until a command has a stream
	mainStart time.Time
	entered   atomic.Bool  // the sandbox is there, and leftovers
	starts    atomic.Int64 // commands of polisd that are being started
	mainPid   atomic.Int64 // of the main command that began last; -1 while one is being started
	task      mainTask
	lastTask  string // the task that began last; "" if none did
	oom       oomState
	late      chan string   // receives a path that a program of the agent waited for
	oomSeen   chan struct{} // receives a value for each kill for memory
	live      live
	hits      hits
	disk      disk
	listening map[netbridge.Port]bool
	undoList
	// network undoes what openNetwork made, which runs beside other steps.
	network undoList
}

// Open starts the view, the sandbox and the sockets. On an error it undoes everything; the error
// has the code of the failed step.
func (s *Shim) Open(ctx context.Context) (err error) {
	s.started, s.stopping, s.listening = time.Now(), make(chan struct{}), map[netbridge.Port]bool{}
	s.live = newLive(&s.Spec)
	s.vars.Store(&s.Spec.Vars)
	s.lastTask = s.Spec.LastTask
	s.oomSeen, s.late = make(chan struct{}, 1), make(chan string, 1)
	s.changes = changed.New()
	s.events = events.New(uint64(s.started.UnixNano()))
	s.events.Minor = func(e api.Event) bool {
		switch e.Type {
		case api.EventDenied, api.EventLockConflict, api.EventApprovalAsked, api.EventApprovalGone, api.EventStatusUpdate:
			return true
		}
		return false
	}
	if err := s.openDenials(); err != nil {
		return api.Errorf(api.CodeInternal, "%w", err)
	}
	group, gctx := errgroup.WithContext(context.WithoutCancel(ctx))
	gctx, cancel := context.WithCancelCause(gctx)
	s.group, s.ctx = group, gctx
	s.onClose("goroutines", func(ctx context.Context) error {
		cancel(errors.New("the shim stops"))
		done := make(chan error, 1)
		go func() { done <- group.Wait() }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			// The process exits next, which ends them.
			return fmt.Errorf("goroutines do not end: %w", context.Cause(ctx))
		}
	})
	defer func() {
		if err != nil {
			err = s.named(errors.Join(err, s.unwind(context.WithoutCancel(ctx))))
		}
	}()
	if s.Spec.Version > wire.Version {
		// The spec could contain a rule that this program does not know.
		return api.Errorf(api.CodeShimUnavailable, "the spec is of version %d, this polis-shim knows %d: it is older than polisd", s.Spec.Version, wire.Version).
			WithHint("install polisd and polis-shim of one version")
	}
	if err := Cleanup(ctx, s.Spec); err != nil {
		code := api.CodeNamespaceFailed
		if errors.Is(err, sandbox.ErrCgroup) {
			code = api.CodeCgroupFailed
		}
		return api.Errorf(code, "clear what an earlier shim left: %w", err)
	}
	close, err := s.openPlaces()
	if err != nil {
		return err
	}
	defer close()
	if err := s.openApprovals(); err != nil {
		return err
	}
	s.group.Go(func() error { s.tally.Run(s.ctx); return nil })
	if s.out, err = openLog(s.logDir(), OutputLog, s.Spec.LogBytes); err != nil {
		return api.Errorf(api.CodeInternal, "%w", err)
	}
	s.onClose("output log", func(context.Context) error { return errors.Join(s.out.Close(), s.closeRaw()) })
	s.openSnapshots()
	s.openSockets()
	if err := s.openInside(); err != nil {
		return api.Errorf(api.CodeInternal, "serve /run/polis of the sandbox: %w", err)
	}
	if err := s.openRest(ctx); err != nil {
		return err
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol != api.ProtoUDP && s.hostPorts.has(p.Internal) {
			s.Log.Warn("port not mapped: it is a host port now", "port", p.Internal)
			continue
		}
		if err := s.ports.add(ctx, wire.PortRequest{Internal: p.Internal, External: p.External, Bind: p.Bind, Protocol: p.Protocol}); err != nil {
			return err
		}
	}
	if s.listener, err = s.listen(); err != nil {
		return api.Errorf(api.CodeInternal, "%w", err)
	}
	s.server = &http.Server{Handler: s.control(), ConnContext: s.withPeer, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	s.onClose("control socket", func(ctx context.Context) error {
		return errors.Join(s.server.Close(), removeIfThere(layout.ShimSocket(s.Spec.RunDir)))
	})
	s.group.Go(func() error {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("control socket: %w", err)
		}
		return nil
	})
	return nil
}

// openRest opens the network, and beside it the view and the sandbox: a change of the packet filter
// waits for the kernel several times, and needs no processor meanwhile. No program of the agent
// runs before the end of both.
func (s *Shim) openRest(ctx context.Context) error {
	err := s.openAudit() // before anything can be recorded
	s.onClose("network", s.network.unwind)
	network := beside(s.openNetwork)
	if err == nil {
		err = s.openViews(ctx)
	}
	if err != nil {
		err = api.Errorf(api.CodeViewFailed, "serve the view: %w", err)
	} else {
		err = s.openSandbox(ctx)
	}
	if nerr := network(); nerr != nil {
		err = errors.Join(api.Errorf(api.CodeNetNSFailed, "join the network namespace: %w", nerr), err)
	}
	if err != nil {
		return err
	}
	return s.watchSandbox()
}

// Serve returns when ctx ends, or when the view or the sandbox has ended.
func (s *Shim) Serve(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.views.dead:
		return errors.New("the view has ended")
	case <-s.sandbox.Done():
		return s.sandboxEnded()
	case <-s.ctx.Done():
		return fmt.Errorf("a part of the shim has ended: %w", context.Cause(s.ctx))
	}
}

// Close ends the agent's processes (TERM, grace, KILL) and removes the
// sandbox, the mounts and the sockets, all within ctx.
func (s *Shim) Close(ctx context.Context) error {
	close(s.stopping)
	var errs []error
	if m := s.current(); m != nil {
		errs = append(errs, s.stopSession(ctx, m, time.Duration(s.Spec.StopGrace)))
	}
	return errors.Join(append(errs, s.unwind(ctx))...)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Shim) path(name string) string { return filepath.Join(s.Spec.RunDir, name) }
