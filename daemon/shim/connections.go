package shim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/view"
	"polis/netbridge"
)

// limitConnections is the name of this limit.
const limitConnections = "connections"

// bound limits the agent's connections to the outside: by the setting, and by the agent's share of
// the kernel's table. If the kernel cannot count connections, they are not limited. The agent
// starts nevertheless: only an agent that attacks the others could do harm.
func (s *Shim) bound(most int64) error {
	if share, err := netbridge.MostConnections(); err != nil {
		s.Log.Warn("agent's share of all connections not known", "op", "net.bound", "err", err)
	} else if share > 0 && most > 0 {
		most = min(most, int64(share))
	}
	err := s.egress.gate.LimitConnections(uint32(min(most, math.MaxUint32)))
	if errors.Is(err, netbridge.ErrNoConnlimit) {
		s.Log.Warn("agent's connections not limited", "op", "net.bound", "err", err)
		err = nil
	}
	if err == nil {
		s.connections.Store(most)
	}
	return err
}

// setConnections applies a changed limit of connections.
func (s *Shim) setConnections(old, now wire.Settings) error {
	if s.egress == nil || old.Connections == now.Connections {
		return nil
	}
	if err := s.bound(now.Connections); err != nil {
		return errors.Join(api.Errorf(api.CodeNetNSFailed, "connections of agent %s: %w", s.Spec.Agent, err), s.bound(old.Connections))
	}
	return nil
}

// overLimit records a connection above the limit.
func (s *Shim) overLimit(r netbridge.Refusal, d view.Denial) {
	most := s.connections.Load()
	d.Code, d.Rule = string(api.CodeQuota), fmt.Sprintf("the agent has %d connections, as many as it may", most)
	d.Hint = fmt.Sprintf("close connections that are not needed, or ask the administrator for more: polisctl agents set %s --connections N", s.Spec.Agent)
	s.deniedBy(d, s.sender(r))
	if !s.hits.hit(limitConnections, 0, time.Now()) {
		return
	}
	s.events.Publish(api.Event{Type: api.EventConnections, Agent: s.Spec.Agent, Code: api.CodeQuota,
		Message: fmt.Sprintf("agent %s has %d connections, as many as it may: new ones are refused", s.Spec.Agent, most),
		Data:    map[string]any{"limit_connections": most}})
}
