package launch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"polis/cgroup"
	"polis/daemon/agent"
	"polis/daemon/agent/environment"
	"polis/daemon/agent/models"
	"polis/daemon/agent/totals"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/launcher"
	"polis/daemon/shim/dial"
	"polis/daemon/store/layout"
	"polis/netbridge"
)

// Deps are what Shims need of polisd. The functions may be called from any goroutine.
type Deps struct {
	Run layout.Run
	// Config returns the configuration of the last reload, which was read from ConfigFile; "": there is none.
	Config     func() config.Config
	ConfigFile string
	// Systemd: shims are units of systemd.
	Systemd bool
	// SocketGID is the group that may connect to the sockets of the shims.
	SocketGID int
	Cgroups   *cgroup.Host
	Bridge    *netbridge.Bridge
	Log       *slog.Logger
	Publish   func(api.Event)
	// Book counts what agents used of model services.
	Book *models.Book
	// Roots returns the directories of the loaded workspaces by their names.
	Roots func() map[string]layout.Workspace
	// Agents returns the agents. It is not called before they are opened.
	Agents func() Agents
	// LeftOpens stores what a shim that has ended left of its opens.
	LeftOpens func(ctx context.Context, agent, dir string)
}

// Agents are those of polisd (package agent).
type Agents interface {
	Everyone() []agent.Placed
	WorkspaceOf(name string) (string, error)
	Isolated() error
	Mounted() map[string]agent.Place
	Remount(ctx context.Context, name string) ([]string, error)
	Statuses(workspace string) map[string]api.Status
	RestoreGate(ctx context.Context, name string) error
	NoteBlocked(ctx context.Context, name string, e *api.Error) error
}

// launching starts and stops shims (package launcher).
type launching interface {
	Name() string
	Start(ctx context.Context, agent, spec string) error
	Alive(ctx context.Context, agent, dir string) (bool, error)
	Stop(ctx context.Context, agent, dir string, grace time.Duration) error
	// Process returns the agent's shim; launcher.ErrNoProcess if none runs.
	Process(ctx context.Context, agent, dir string) (launcher.Process, error)
	// Names returns the agents whose shims run, including those whose files are gone.
	Names(agentsDir string) ([]string, error)
}

// Shims starts and stops the agents' shims.
type Shims struct {
	Deps

	launcher launching
	program  string // polis-shim
	env      *environment.Builder
	// totals applies the limits of all agents together.
	totals *totals.Totals
	// missing is what this machine cannot isolate.
	missing []api.Loss
	// activity wakes the shims of running agents.
	activity *dial.Activity
	models   *models.Source
	shared   *models.BudgetKeeper
	// heartbeats are the shims' signs of life, reminders the times of the last remindOfSocket.
	heartbeats, reminders heartbeats

	forward *forwarding
	// dockerUser: polisd began with rules in Docker's chain.
	dockerUser bool

	watches []watch // those that run, in the order of their start
}

// Open finds polis-shim and what this machine cannot isolate. It starts nothing.
func Open(ctx context.Context, deps Deps) (*Shims, error) {
	s := &Shims{Deps: deps, launcher: &launcher.Systemd{}, activity: &dial.Activity{Log: deps.Log},
		models: &models.Source{Config: deps.Config, Getenv: os.Getenv, Owner: uint32(os.Geteuid()), Now: time.Now}}
	var err error
	if s.program, err = launcher.FindShim(deps.Config().Shim); err != nil {
		return nil, err
	}
	if !deps.Systemd {
		s.launcher = &launcher.Fork{Shim: s.program}
	}
	s.env = &environment.Builder{Run: deps.Run, Config: deps.Config, Lost: s.MissingNames, Cgroup: s.CgroupPath,
		SocketGID: deps.SocketGID, Log: deps.Log}
	s.totals, s.shared = s.newTotals(), s.newSharedBudgets()
	s.forward, s.dockerUser = newForwarding(s), deps.Config().Network.DockerUser
	if err := s.probeIsolation(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// LauncherName names what starts the shims.
func (s *Shims) LauncherName() string { return s.launcher.Name() }

// StopAgents reports whether a request to stop polisd includes the agents: always by hand; under systemd only if
// polisd is to be stopped, not restarted.
func (s *Shims) StopAgents(ctx context.Context) bool {
	l, ok := s.launcher.(*launcher.Systemd)
	if !ok {
		return true
	}
	stop, err := l.Stopping(ctx)
	if err != nil {
		s.Log.Warn("reason of the stop not read from systemd; agents are left to it", "err", err)
	}
	return stop
}

// CgroupPath returns the path of the control group of an agent's sandbox: below the agent's unit
// if systemd runs the shims, else below one directory per daemon and agent. The shim's own group
// is beside it.
func (s *Shims) CgroupPath(name string) (path string, delegated bool) {
	if s.Systemd {
		return "/polis.slice/polis-agent@" + name + ".service/sandbox", true
	}
	return s.groupsPath() + "/" + name + "/sandbox", false
}

// groupsPath returns the path of the directory above the agents' control groups. systemd does not use it.
func (s *Shims) groupsPath() string { return "/" + s.Bridge.Table() }

// watch is a goroutine of Watch.
type watch struct {
	cancel context.CancelCauseFunc
	wg     *sync.WaitGroup
}

// Watch starts what watches the shims, until ctx ends or Close is called. It returns at once.
func (s *Shims) Watch(ctx context.Context) {
	s.start(ctx, s.activity.Run, s.keepViews, s.keepSockets, s.keepNetwork)
}

func (s *Shims) start(ctx context.Context, runs ...func(context.Context)) {
	for _, run := range runs {
		ctx, cancel := context.WithCancelCause(ctx)
		w := watch{cancel: cancel, wg: &sync.WaitGroup{}}
		w.wg.Go(func() { run(ctx) })
		s.watches = append(s.watches, w)
	}
}

// Close ends what Watch started, the last one first. Shims and their agents continue.
func (s *Shims) Close() {
	for len(s.watches) > 0 {
		last := len(s.watches) - 1
		s.watches[last].cancel(errors.New("the daemon stops"))
		s.watches[last].wg.Wait()
		s.watches = s.watches[:last]
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
