package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sort"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/history/task"
	"polis/daemon/store/events"
)

// Manager manages the agents of a daemon. Set the fields, then call Open. Close ends its
// goroutines.
type Manager struct {
	Config config.Config
	Types  func() (map[string]config.BaseType, error)
	// Type is one of Types, and false if there is none of that name: it is read before each task.
	Type func(name string) (config.BaseType, bool, error)
	// Lost is the isolation that this machine lacks.
	Lost      []api.Loss
	Resources []Resource // ensured at the same time, removed in reverse order; the shim comes after all
	Shims     Shims
	Watch     Watcher // nil: the shims are not watched
	Locks     Locks
	Ports     PortAllocator
	State     Saver
	Answers   AnswerSaver // nil: answers are not kept
	Events    *events.Hub
	Log       *slog.Logger
	Now       func() time.Time
	// PortURL returns the URL of an agent's TCP port at the proxy. It is nil without a proxy.
	PortURL func(agent string, internal int) string
	// Capacity returns the machine's capacity for agents of a workspace; nil: unlimited.
	Capacity func(*Workspace) (Capacity, error)
	// Gate sets the egress of an agent whose shim is of a version before egress. May be nil.
	Gate func(ctx context.Context, a *Agent, egress, private []string) error
	// Blocked is who has dropped packets of agents at any time since then (the zero time: who does now), nil if
	// nobody has. May be nil.
	Blocked func(since time.Time) *api.Error
	// Halted reports that the daemon is about to stop: running agents are adopted, but nothing is
	// started and no removal is finished. May be nil.
	Halted func() bool
	// Over is called when the work of an ephemeral agent may have ended. It must not block. May be
	// nil.
	Over func()
	// ExitTime bounds how long an operation waits for the program of a task that has ended; 0: 20 s.
	ExitTime time.Duration
	// Crash is called between the steps of an operation, with the step's name: tests kill the
	// daemon there. May be nil.
	Crash func(step string)
	// BeforeTask is called before the command of a task starts. May be nil.
	BeforeTask func(ctx context.Context, h Held, t api.Task) error
	// BeforeRebase is called before the target is merged into an agent's branch at a user's request. May
	// be nil.
	BeforeRebase func(ctx context.Context, h Held) error
	// Froze is called when a breaker has frozen an agent, and with nil when it was thawed. It must
	// not call the manager. May be nil.
	Froze func(a *Agent, f *api.Frozen)
	// AskLost asks a person about a task that was lost at a restart. What it asked before it asks once. It must not call
	// the manager. May be nil.
	AskLost func(a *Agent, t api.Task) error
	// LostDecided is called when a lost task was retried or dismissed; how says which. It must not call the manager. May be
	// nil.
	LostDecided func(a *Agent, task, how string)
	// FollowOpens stores what an agent opens, until ctx ends; nil: nothing does.
	FollowOpens func(ctx context.Context, agent string)
	// Refused returns what the receipts of a workspace have of what an agent was refused since then; nil: there are none.
	// damaged is the number of the first that does not match its hash, where it ends.
	Refused func(ctx context.Context, workspace, agent string, since time.Time) (why []api.WhyEntry, damaged uint64, err error)
	// Prepare is called when an agent's shim serves its view, and makes its first checkpoint quick. It ends with ctx; nil:
	// nothing is done.
	Prepare func(ctx context.Context, agent string)

	mu         sync.Mutex
	agents     map[string]*Agent
	workspaces map[string]*Workspace
	cfgLive    *config.Config
	// removing holds, by agent, the result of the removal after its last merge; no entry if there
	// was none, or the agent is removed.
	removing map[string]chan error
	// tasks contains the records of the agents' tasks, by directory.
	tasks map[string]*task.Store

	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// undoTime bounds the undo of a failed step, which runs even if the caller's context has ended.
const undoTime = 60 * time.Second

// downTime bounds stopping an agent. It includes the grace period of its programs, as configured
// now and as configured when the shim started.
func (m *Manager) downTime(a *Agent) time.Duration {
	grace := time.Duration(m.config().Limits.StopGrace)
	if sp, ok := m.Shims.Spec(a.Name()); ok {
		grace = max(grace, time.Duration(sp.StopGrace))
	}
	return undoTime + grace
}

// Open starts the manager. Its goroutines end at Close.
func (m *Manager) Open(ctx context.Context) {
	m.ctx, m.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	m.agents, m.workspaces, m.removing, m.tasks = map[string]*Agent{}, map[string]*Workspace{}, map[string]chan error{}, map[string]*task.Store{}
	m.cfgLive = &m.Config
	m.ExitTime = cmp.Or(m.ExitTime, exitTime)
	if m.Watch != nil {
		m.wg.Go(m.watch)
		m.wg.Go(func() { m.renewKeys(m.ctx) })
	}
}

// Close stops following the shims. It stops no agent.
func (m *Manager) Close() {
	m.cancel(errors.New("the daemon stops"))
	m.wg.Wait()
}

// SetConfig replaces the configuration for later operations.
func (m *Manager) SetConfig(c config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfgLive = &c
}

func (m *Manager) halted(ctx context.Context) bool {
	return ctx.Err() != nil || m.Halted != nil && m.Halted()
}

func (m *Manager) config() config.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.cfgLive
}

// AddWorkspace registers a workspace. A second call for the same name replaces what can have
// changed and keeps the agents.
func (m *Manager) AddWorkspace(w *Workspace) *Workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.workspaces[w.Name]; ok {
		old.Target, old.Project, old.Git, old.AsUser, old.Repo, old.Queue, old.Record = w.Target, w.Project, w.Git, w.AsUser, w.Repo, w.Queue, w.Record
		return old
	}
	w.mu, w.manager = &m.mu, m
	m.workspaces[w.Name] = w
	return w
}

// Workspaces returns the known workspaces, sorted by name.
func (m *Manager) Workspaces() []api.Workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]api.Workspace, 0, len(m.workspaces))
	for _, w := range m.workspaces {
		n := 0
		for _, a := range m.agents {
			if a.WS == w {
				n++
			}
		}
		out = append(out, api.Workspace{Name: w.Name, Path: string(w.Root), Project: w.Project, Git: w.Git, TargetBranch: w.Target, UID: w.UID, GID: w.GID, Agents: n})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Workspace finds a workspace by name or path. An empty name finds the only one.
func (m *Manager) Workspace(name string) (*Workspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" {
		switch len(m.workspaces) {
		case 0:
			return nil, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace yet").WithHint("polisctl up --repo PATH")
		case 1:
			for _, w := range m.workspaces {
				return w, nil
			}
		}
		names := make([]string, 0, len(m.workspaces))
		for n := range m.workspaces {
			names = append(names, n)
		}
		sort.Strings(names)
		return nil, api.Errorf(api.CodeBadRequest, "there are %d workspaces: choose one of %s", len(names), listed(names)).With("workspaces", names).WithHint("--workspace %s", names[0])
	}
	for _, w := range m.workspaces {
		if w.Name == name || string(w.Root) == name || w.Project == name {
			return w, nil
		}
	}
	return nil, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %q", api.Shorten(name, 200)).WithHint("polisctl status lists them; polisctl up makes one")
}

// find returns the agent with its op held. The caller unlocks a.op.
func (m *Manager) find(ctx context.Context, name string) (*Agent, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	if err := a.op.Acquire(ctx); err != nil {
		return nil, api.Errorf(api.CodeTimeout, "agent %s is busy with another operation: %w", name, err).WithHint("try again in a moment")
	}
	m.mu.Lock()
	still := m.agents[name] == a
	m.mu.Unlock()
	if !still {
		a.op.Unlock()
		return nil, notFound(name)
	}
	return a, nil
}

func (m *Manager) lookup(name string) (*Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.agents[name]; ok {
		return a, nil
	}
	return nil, notFound(name)
}

func notFound(name string) error {
	return api.Errorf(api.CodeAgentNotFound, "there is no agent %q", api.Shorten(name, 64)).WithHint("polisctl agents list shows them, polisctl agents add makes one")
}

// Get returns one agent, with live figures if it is up.
func (m *Manager) Get(ctx context.Context, name string) (api.Agent, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.Agent{}, err
	}
	return m.live(ctx, a), nil
}

// List returns the agents of a workspace ("" = all), sorted by name.
func (m *Manager) List(ctx context.Context, workspace string) []api.Agent {
	m.mu.Lock()
	var as []*Agent
	for _, a := range m.agents {
		if workspace == "" || a.WS.Name == workspace {
			as = append(as, a)
		}
	}
	m.mu.Unlock()
	out := make([]api.Agent, len(as))
	var wg sync.WaitGroup
	for i, a := range as {
		wg.Go(func() { out[i] = m.live(ctx, a) })
	}
	wg.Wait()
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Statuses returns the state of every agent, by name, of one workspace or, with "", of all. Unlike
// List it asks no shim: polisd calls it all the time, and shims of idle agents sleep.
func (m *Manager) Statuses(workspace string) map[string]api.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]api.Status{}
	for name, a := range m.agents {
		if workspace == "" || a.WS.Name == workspace {
			out[name] = a.Kept.Status
		}
	}
	return out
}

// OnBranch returns another agent of a workspace that was added on a branch, or "". It does not
// read the HEADs of worktrees, which agents write.
func (m *Manager) OnBranch(workspace, branch, except string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, a := range m.agents {
		if name != except && a.WS.Name == workspace && a.Kept.Branch == branch {
			return name
		}
	}
	return ""
}

// count returns the number of agents of a workspace. m.mu is held.
func (m *Manager) count(workspace string) int {
	n := 0
	for _, a := range m.agents {
		if a.WS.Name == workspace {
			n++
		}
	}
	return n
}
