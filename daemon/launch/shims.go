package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/recording"
	"polis/daemon/history/task"
	"polis/daemon/shim/dial"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

// readyTime is the longest that the start of a shim may take.
const readyTime = 30 * time.Second

// Dial returns a client of the shim of an agent. It connects with the first request.
func (s *Shims) Dial(name string) agent.Shim { return s.dial(name) }

func (s *Shims) dial(name string) *dial.Shim {
	sh := dial.New(s.Run.AgentSocket(name))
	sh.Activity = s.activity
	sh.OnReceive = func() { s.heartbeats.note(name) }
	sh.OnMissing = func() { s.remindOfSocket(name) }
	return sh
}

// Socket is where the shim of an agent listens.
func (s *Shims) Socket(name string) string { return s.Run.AgentSocket(name) }

// Spec reads the spec that an agent's shim was started with.
func (s *Shims) Spec(agent string) (wire.Spec, bool) {
	var sp wire.Spec
	if err := store.ReadSummed(s.Run.AgentSpec(agent), &sp); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.Log.Warn("spec of a shim not read", "agent", agent, "err", err)
		}
		return wire.Spec{}, false
	}
	return sp, sp.Agent == agent
}

// prepare makes what a shim needs and writes its spec.
func (s *Shims) prepare(a *agent.Agent, dir string) error {
	spec, err := s.env.Prepare(a, dir)
	if err == nil {
		err = store.WriteSummed(s.Run.AgentSpec(a.Name()), spec)
	}
	if err != nil {
		return api.Errorf(api.CodeInternal, "prepare agent %s: %w", a.Name(), err)
	}
	return nil
}

// Settings returns the part of an agent's spec that can change while the agent runs.
func (s *Shims) Settings(a *agent.Agent) wire.Settings { return s.env.Settings(a) }

// Note writes the settings that a running shim has accepted, and the agent's own variables, into its spec.
func (s *Shims) Note(a *agent.Agent, v wire.Settings) error {
	name := a.Name()
	sp, ok := s.Spec(name)
	if !ok {
		return nil // without a spec nothing is out of date
	}
	sp.Settings, sp.OwnEnv = v, a.Copy().Env
	if err := store.WriteSummed(s.Run.AgentSpec(name), sp); err != nil {
		return fmt.Errorf("note the settings of agent %s: %w", name, err)
	}
	return nil
}

// RefreshHome brings the copies in the home of an agent that is up to date.
func (s *Shims) RefreshHome(a *agent.Agent) error {
	spec, ok := s.Spec(a.Name())
	if !ok {
		return nil // it is not up: its next start does it
	}
	return s.env.RefreshHome(a, spec)
}

// SendModels gives an agent's shim its model services. A service whose key cannot be read is not among
// them.
func (s *Shims) SendModels(ctx context.Context, a *agent.Agent) error {
	m, kerr := s.modelsOf(ctx, a)
	sh := dial.New(s.Run.AgentSocket(a.Name()))
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
func (s *Shims) modelsOf(ctx context.Context, a *agent.Agent) (wire.Models, error) {
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
func (s *Shims) Reason(a *agent.Agent) string {
	if err := recordedError(s.Run.Agent(a.Name())); err != nil {
		return err.Error()
	}
	return ""
}

// Alive reports whether the shim of an agent runs.
func (s *Shims) Alive(ctx context.Context, a *agent.Agent) (bool, error) {
	return s.launcher.Alive(ctx, a.Name(), s.Run.Agent(a.Name()))
}

// Ensure writes the spec, starts the shim and waits until the shim answers or reports why it
// cannot start.
func (s *Shims) Ensure(ctx context.Context, a *agent.Agent) (err error) {
	dir := s.Run.Agent(a.Name())
	if err := s.prepare(a, dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := s.totals.Apply(ctx); err != nil {
		return err
	}
	serr := s.launcher.Start(ctx, a.Name(), s.Run.AgentSpec(a.Name()))
	if serr != nil {
		if err := recordedError(dir); err != nil {
			return err
		}
		return api.Errorf(api.CodeNamespaceFailed, "start the shim of agent %s: %w", a.Name(), serr).WithHint("see journalctl -u polis-agent@%s or %s/shim.log", a.Name(), dir)
	}
	for {
		if _, err := dial.New(s.Socket(a.Name())).Status(ctx); err == nil { // its socket is missing until it has one
			if err := s.SendModels(ctx, a); err != nil {
				s.Log.Warn("model services not set", "agent", a.Name(), "err", err, "hint", api.AsError(err).Hint)
			}
			return s.totals.Apply(ctx) // the parent group can have been removed with another agent and made again for this one
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
func (s *Shims) Remove(ctx context.Context, a *agent.Agent) error {
	dir := s.Run.Agent(a.Name())
	grace := time.Duration(s.Config().Limits.StopGrace)
	if sp, ok := s.Spec(a.Name()); ok { // its own grace period was set when it started
		grace = max(grace, time.Duration(sp.StopGrace))
	}
	grace += 20 * time.Second
	watched := s.endStuck(ctx, a.Name())
	err := s.launcher.Stop(ctx, a.Name(), dir, grace)
	watched()
	s.LeftOpens(ctx, a.Name(), dir)
	s.leftEvents(a.Name(), dir)
	if err = errors.Join(err, s.clear(ctx, a)); err != nil {
		return fmt.Errorf("remove the shim of agent %s: %w", a.Name(), err)
	}
	return nil
}
