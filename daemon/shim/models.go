package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/gateway"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/raise"
	"polis/daemon/gateway/recording"
)

// models is the endpoint of the model gateway; it exists from the first time that polisd sends services.
type models struct {
	mu      sync.Mutex
	gateway *gateway.Gateway
	ledger  *ledger.Ledger
	calls   *serviceCalls
	closed  bool
	// open is gateway, for what must not wait for mu.
	open atomic.Pointer[gateway.Gateway]
}

// handleModels replaces the model services of the agent. It holds their keys in memory only.
func (s *Shim) handleModels(w http.ResponseWriter, r *http.Request) error {
	var req wire.Models
	if err := readJSON(r, &req); err != nil {
		return err
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	if s.models.closed || s.models.gateway == nil && len(req.Models)+len(req.Services) == 0 {
		return writeJSON(w, struct{}{})
	}
	if s.ns == nil {
		return api.Errorf(api.CodeBadState, "agent %s is in the host's network, where it can have no model endpoint of its own: polisctl doctor shows what is missing", s.Spec.Agent)
	}
	// The keys must not be in a core dump, and no other user's process may read this one.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return api.Errorf(api.CodeInternal, "protect the memory of the shim: %w", err)
	}
	if s.models.gateway == nil {
		err := s.openModels()
		switch {
		case api.CodeOf(err) == api.CodeModelCountsCorrupt:
			return s.named(api.Errorf(api.CodeModelCountsCorrupt, "the gateway of agent %s stays closed: %w", s.Spec.Agent, err))
		case err != nil:
			return s.named(api.Errorf(api.CodeNetNSFailed, "model endpoint of agent %s: %w", s.Spec.Agent, err))
		}
	}
	if req.Replay != nil {
		req.Replay.File = s.at(req.Replay.File)
	}
	if err := s.models.gateway.Set(req); err != nil {
		return api.Errorf(api.CodeBadRequest, "%w", err)
	}
	return writeJSON(w, struct{}{})
}

func modelAddr() netip.AddrPort { return netip.MustParseAddrPort(wire.ModelEndpoint) }

// openModels opens the endpoint. s.models.mu is held.
func (s *Shim) openModels() error {
	l, err := ledger.Open(s.logDir())
	if err != nil {
		return err
	}
	if r := l.Recovered(); r != (ledger.Recovered{}) {
		s.Log.Warn("model requests of a killed shim counted as cut, and torn lines of the counts left out",
			"op", "model", "open", r.Open, "lines", r.Unread)
	}
	calls, err := openCalls(s.logDir())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	raises, err := raise.Open(s.logDir())
	if err != nil { // then nothing is raised
		s.Log.Error("raised model budgets not read", "err", err)
	}
	ln, err := s.ns.Listen(s.ctx, "tcp4", wire.ModelEndpoint)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s of the agent: %w", wire.ModelEndpoint, err), l.Close(), calls.log.Close())
	}
	g := gateway.New()
	g.Ledger, g.Log, g.Work, g.Reached, g.Limited = l, s.Log, s.workOf, s.budgetReached, s.serviceLimited
	g.ShareWanted, g.ShareRaised = s.shareWanted, s.shareRaised
	g.Ask, g.Stop, g.Raises = s.askBudget, s.stopForBudget, raises
	g.Rekeyed, g.Called, g.KeyRefused, g.Uncounted = s.keyReplaced, s.serviceCalled, s.keyRefused, s.notCounted
	g.Recorder = &recording.Writer{Logs: s.logDir(), Now: time.Now, Stopped: func(task, why string) {
		s.Log.Warn("recording stopped", "op", "model", "task", task, "err", why)
		s.events.Publish(gateway.StoppedEvent(s.Spec.Agent, task, why))
	}}
	s.models.gateway, s.models.ledger, s.models.calls = g, l, calls
	s.models.open.Store(g)
	g.Serve(s.ctx, ln)
	return nil
}

func (s *Shim) closeModels(ctx context.Context) error {
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	s.models.closed = true
	if s.models.gateway == nil {
		return nil
	}
	return errors.Join(s.models.gateway.Close(ctx), s.models.ledger.Close(), s.models.calls.log.Close())
}

// isModelEndpoint reports whether a listener of the agent's network is the endpoint.
func (s *Shim) isModelEndpoint(at netip.AddrPort) bool {
	if at != modelAddr() {
		return false
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	return s.models.gateway != nil
}

// handleModelPause holds back requests to a service that asked another agent to wait.
func (s *Shim) handleModelPause(w http.ResponseWriter, r *http.Request) error {
	var req wire.PauseRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	if s.models.gateway != nil {
		s.models.gateway.Pause(req.Name, req.Until, time.Duration(req.Turn))
	}
	return writeJSON(w, struct{}{})
}

// handleModelShares replaces what the agent may use of the budget that its role shares.
func (s *Shim) handleModelShares(w http.ResponseWriter, r *http.Request) error {
	var req wire.Shares
	if err := readJSON(r, &req); err != nil {
		return err
	}
	s.models.mu.Lock()
	g := s.models.gateway
	s.models.mu.Unlock()
	if g == nil { // without a gateway nothing is used
		return api.Errorf(api.CodeBadState, "agent %s has no model services", s.Spec.Agent)
	}
	return writeJSON(w, g.Share(req))
}

// handleReplayed returns the result of the requests of a replay.
func (s *Shim) handleReplayed(w http.ResponseWriter, _ *http.Request) error {
	s.models.mu.Lock()
	g := s.models.gateway
	s.models.mu.Unlock()
	if g != nil {
		if r, ok := g.Replayed(); ok {
			return writeJSON(w, r)
		}
	}
	return api.Errorf(api.CodeBadState, "agent %s replays no recording", s.Spec.Agent)
}

// budgetReached reports that the agent has used a part of its budget for models.
func (s *Shim) budgetReached(st budget.State) {
	what := fmt.Sprintf("%d %% of its model budget is used", st.Percent)
	if st.Spent() {
		what = "its model budget is spent"
	}
	s.events.Publish(api.Event{Type: api.EventModelBudget, Agent: s.Spec.Agent, Message: fmt.Sprintf("agent %s: %s: %s", s.Spec.Agent, what, st.Text),
		Data: map[string]any{"percent": st.Percent, "bound": st.Bound, "text": st.Text, "task": st.Task}})
}

// keyReplaced reports that requests have another key from now on.
func (s *Shim) keyReplaced(service string) {
	s.events.Publish(api.Event{Type: api.EventModelKey, Agent: s.Spec.Agent, Message: fmt.Sprintf("agent %s: the key of model service %s was replaced", s.Spec.Agent, service),
		Data: map[string]any{"service": service}})
}

// notCounted reports that the counts of model requests cannot be written.
func (s *Shim) notCounted(err error) {
	s.events.Publish(api.Event{Type: api.EventModelUncounted, Agent: s.Spec.Agent,
		Message: fmt.Sprintf("agent %s: the counts of its model requests cannot be written, and are in memory only: %v", s.Spec.Agent, err), Data: map[string]any{"err": err.Error()}})
}

// keyRefused reports that a service refused its key, so that polisd can send another one.
func (s *Shim) keyRefused(service string) {
	s.events.Publish(api.Event{Type: wire.EventKeyRefused, Agent: s.Spec.Agent, Message: "service " + service + " refused its key", Data: map[string]any{"service": service}})
}

// serviceLimited reports that a service asked to wait, so that polisd has the other agents wait, too.
func (s *Shim) serviceLimited(service string, until time.Time) {
	s.events.Publish(api.Event{Type: wire.EventModelPause, Agent: s.Spec.Agent, Message: fmt.Sprintf("model service %s asked to wait until %s", service, until.UTC().Format(time.TimeOnly)),
		Data: map[string]any{"service": service, "until": until.UTC().Format(time.RFC3339Nano)}})
}
