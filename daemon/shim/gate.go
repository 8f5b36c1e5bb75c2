package shim

import (
	"errors"
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/view"
	"polis/netbridge"
)

// olderPolisd lets packets pass the bridge that the rules of a polisd before wire.GateVersion let out: they
// have no mark.
func (s *Shim) olderPolisd() {
	if s.egress == nil {
		return
	}
	if err := s.egress.gate.LowerBarrier(); err != nil {
		s.Log.Error("agents reach nothing: the filter of the bridge, which this older polisd does not know, was not removed", "op", "net.barrier", "err", err)
	}
}

// handleGate writes all rules of the gate again: another program has removed them, and polisd has restored
// the chains that they are in.
func (s *Shim) handleGate(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.live.changing <- struct{}{}:
		defer func() { <-s.live.changing }()
	case <-r.Context().Done():
		return api.Errorf(api.CodeTimeout, "gate of agent %s: settings are being set", s.Spec.Agent)
	}
	if s.egress == nil {
		return writeJSON(w, struct{}{}) // the agent has the host's network, or its polisd opened the gate
	}
	if err := s.restoreGate(); err != nil {
		return api.Errorf(api.CodeNetNSFailed, "gate of agent %s: %w", s.Spec.Agent, err)
	}
	return writeJSON(w, struct{}{})
}

// restoreGate opens the gate last.
func (s *Shim) restoreGate() error {
	if err := s.egress.gate.LogTo(s.egress.queue); err != nil && !errors.Is(err, netbridge.ErrNoQueue) {
		return err
	}
	if err := s.bound(s.settings().Connections); err != nil {
		return err
	}
	return s.egress.set(s.ctx, s.egress.egress())
}

// handleBlocked records who drops the agent's packets, for the programs in the sandbox. polisd has published it.
func (s *Shim) handleBlocked(w http.ResponseWriter, r *http.Request) error {
	var req wire.BlockedRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	s.views.whys.Add(view.Denial{Time: time.Now(), Op: "connection", Path: "the network outside", Code: string(api.CodeNetworkBlocked), Errno: "ETIMEDOUT",
		Rule: req.Reason, Hint: req.Reason + ": " + req.Hint})
	s.updateWhy()
	return writeJSON(w, struct{}{})
}
