package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"polis/daemon/agent"
	"polis/daemon/agent/environment"
	"polis/daemon/agent/models"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/gateway/recording"
	"polis/daemon/history/task"
	"polis/daemon/host/launcher"
	"polis/daemon/shim/dial"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/fusefs/fdtree"
)

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

// readyTime is the longest that the start of a shim may take.
const readyTime = 30 * time.Second

// shims starts and stops the agents' shims.
type shims struct {
	run      layout.Run
	launcher launching
	program  string
	config   func() config.Config
	env      *environment.Builder
	cgroup   func(agent string) (path string, delegated bool)
	// total applies the limits of all agents together.
	total func(context.Context) error
	// roots returns the directories of the loaded workspaces.
	roots func() map[string]layout.Workspace
	// left stores what the shim has recorded and not handed over.
	left func(ctx context.Context, agent, dir string)
	log  *slog.Logger
	// activity wakes the shims of running agents.
	activity *dial.Activity
	models   *models.Source
	book     *models.Book
	shared   *models.BudgetKeeper
	// heartbeats are the shims' signs of life, reminders the times of the last remindOfSocket.
	heartbeats, reminders heartbeats
}

func (s *shims) Dial(name string) agent.Shim { return s.dial(name) }

func (s *shims) dial(name string) *dial.Shim {
	sh := dial.New(s.run.AgentSocket(name))
	sh.Activity = s.activity
	sh.OnReceive = func() { s.heartbeats.note(name) }
	sh.OnMissing = func() { s.remindOfSocket(name) }
	return sh
}

func (s *shims) Socket(name string) string { return s.run.AgentSocket(name) }

// Spec reads the spec that an agent's shim was started with.
func (s *shims) Spec(agent string) (wire.Spec, bool) {
	var sp wire.Spec
	if err := store.ReadSummed(s.run.AgentSpec(agent), &sp); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("spec of a shim not read", "agent", agent, "err", err)
		}
		return wire.Spec{}, false
	}
	return sp, sp.Agent == agent
}

// prepare makes what a shim needs and writes its spec.
func (s *shims) prepare(a *agent.Agent, dir string) error {
	spec, err := s.env.Prepare(a, dir)
	if err == nil {
		err = store.WriteSummed(s.run.AgentSpec(a.Name()), spec)
	}
	if err != nil {
		return api.Errorf(api.CodeInternal, "prepare agent %s: %w", a.Name(), err)
	}
	return nil
}

// Settings returns the part of an agent's spec that can change while the agent runs.
func (s *shims) Settings(a *agent.Agent) wire.Settings { return s.env.Settings(a) }

// Note writes the settings that a running shim has accepted, and the agent's own variables, into its spec.
func (s *shims) Note(a *agent.Agent, v wire.Settings) error {
	name := a.Name()
	sp, ok := s.Spec(name)
	if !ok {
		return nil // without a spec nothing is out of date
	}
	sp.Settings, sp.OwnEnv = v, a.Copy().Env
	if err := store.WriteSummed(s.run.AgentSpec(name), sp); err != nil {
		return fmt.Errorf("note the settings of agent %s: %w", name, err)
	}
	return nil
}

// RefreshHome brings the copies in the home of an agent that is up to date.
func (s *shims) RefreshHome(a *agent.Agent) error {
	spec, ok := s.Spec(a.Name())
	if !ok {
		return nil // it is not up: its next start does it
	}
	return s.env.RefreshHome(a, spec)
}

// SendModels gives an agent's shim its model services. A service whose key cannot be read is not among
// them.
func (s *shims) SendModels(ctx context.Context, a *agent.Agent) error {
	m, kerr := s.modelsOf(ctx, a)
	sh := dial.New(s.run.AgentSocket(a.Name()))
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return errors.Join(kerr, err)
	}
	if st.Version < wire.ModelsVersion {
		if len(m.Models)+len(m.Services) > 0 {
			kerr = errors.Join(kerr, errors.New("its shim is of an older polis: start the agent again"))
		}
		return kerr
	}
	m, werr := m.Without(st.Version)
	return errors.Join(kerr, werr, sh.SetModels(ctx, m))
}

// modelsOf returns the model services of an agent. One that replays a task has no keys.
func (s *shims) modelsOf(ctx context.Context, a *agent.Agent) (wire.Models, error) {
	k := a.Copy()
	if k.Replay == nil {
		return s.models.For(ctx, k.Role)
	}
	of, _, err := task.ParseID(k.Replay.Task)
	if err != nil {
		return wire.Models{}, err
	}
	return s.models.Replay(k.Role, wire.Replay{File: recording.File(a.WS.Root.Logs(of), k.Replay.Task), Agents: []string{of, k.Name}, ByOrder: k.Replay.ByOrder}), nil
}

// Reason returns the error that the agent's shim recorded before it exited.
func (s *shims) Reason(a *agent.Agent) string {
	if err := recordedError(s.run.Agent(a.Name())); err != nil {
		return err.Error()
	}
	return ""
}

func (s *shims) Alive(ctx context.Context, a *agent.Agent) (bool, error) {
	return s.launcher.Alive(ctx, a.Name(), s.run.Agent(a.Name()))
}

// List returns the names of the agents that have a directory below the run directory, and of those
// whose shim runs without one.
func (s *shims) List(context.Context) ([]string, error) {
	out, err := s.launcher.Names(s.run.Agents())
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.run.Agents())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Ensure writes the spec, starts the shim and waits until the shim answers or reports why it
// cannot start.
func (s *shims) Ensure(ctx context.Context, a *agent.Agent) (err error) {
	dir := s.run.Agent(a.Name())
	if err := s.prepare(a, dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := s.total(ctx); err != nil {
		return err
	}
	serr := s.launcher.Start(ctx, a.Name(), s.run.AgentSpec(a.Name()))
	if serr != nil {
		if err := recordedError(dir); err != nil {
			return err
		}
		return api.Errorf(api.CodeNamespaceFailed, "start the shim of agent %s: %w", a.Name(), serr).WithHint("see journalctl -u polis-agent@%s or %s/shim.log", a.Name(), dir)
	}
	for {
		if _, err := dial.New(s.Socket(a.Name())).Status(ctx); err == nil { // its socket is missing until it has one
			if err := s.SendModels(ctx, a); err != nil {
				s.log.Warn("model services not set", "agent", a.Name(), "err", err, "hint", api.AsError(err).Hint)
			}
			return s.total(ctx) // the parent group can have been removed with another agent and made again for this one
		}
		alive, err := s.launcher.Alive(ctx, a.Name(), dir)
		if err := recordedError(dir); err != nil {
			return err
		}
		if err == nil && !alive {
			return api.Errorf(api.CodeNamespaceFailed, "the shim of agent %s ended at once", a.Name()).WithHint("see journalctl -u polis-agent@%s or %s/shim.log", a.Name(), dir)
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.CodeTimeout, "the shim of agent %s did not answer in %s: %w", a.Name(), readyTime, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// recordedError returns the error that a shim recorded, or nil.
func recordedError(dir string) error {
	b, err := os.ReadFile(layout.ShimError(dir))
	if err != nil {
		return nil //nolint:nilerr // no report
	}
	e := &api.Error{}
	if err := json.Unmarshal(b, e); err != nil || e.Code == "" {
		return nil //nolint:nilerr // still being written
	}
	return e
}

// Remove stops the shim and removes what it left, even if it is dead already.
func (s *shims) Remove(ctx context.Context, a *agent.Agent) error {
	dir := s.run.Agent(a.Name())
	grace := time.Duration(s.config().Limits.StopGrace)
	if sp, ok := s.Spec(a.Name()); ok { // its own grace period was set when it started
		grace = max(grace, time.Duration(sp.StopGrace))
	}
	grace += 20 * time.Second
	watched := s.endStuck(ctx, a.Name())
	err := s.launcher.Stop(ctx, a.Name(), dir, grace)
	watched()
	s.left(ctx, a.Name(), dir)
	if err = errors.Join(err, s.clear(ctx, a)); err != nil {
		return fmt.Errorf("remove the shim of agent %s: %w", a.Name(), err)
	}
	return nil
}

// clear removes what a dead shim has left, its directory last. If the spec is missing, clear
// writes one, with which the remains are found by name.
func (s *shims) clear(ctx context.Context, a *agent.Agent) error {
	dir := s.run.Agent(a.Name())
	if _, ok := s.Spec(a.Name()); !ok {
		if err := s.recreateSpec(a, dir); errors.Is(err, errNothingLeft) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := s.cleanup(ctx, a.Name()); err != nil {
		return err
	}
	if left, err := s.mounts(a.Name()); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("views of agent %s are still mounted at %q; nothing below was deleted", a.Name(), left))
	}
	return fdtree.RemoveAll(ctx, dir)
}

// cleanup runs the shim program, which removes mounts, sandbox and control group by name. Only
// that program links libcontainer.
func (s *shims) cleanup(ctx context.Context, name string) error {
	if err := launcher.Cleanup(ctx, s.program, s.run.AgentSpec(name)); err != nil {
		return fmt.Errorf("clear up after the shim of agent %s: %w", name, err)
	}
	return nil
}
