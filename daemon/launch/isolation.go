package launch

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/host/isolation"
)

// probeTime is the longest that the probe of the machine's isolation may take.
const probeTime = 20 * time.Second

// probeIsolation records and logs which isolation this machine lacks.
func (s *Shims) probeIsolation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	lost, err := isolation.Probe(ctx, s.program)
	if err != nil {
		return api.Errorf(api.CodeNamespaceFailed, "find out what can be isolated: %w", err).WithHint("polis-shim --doctor shows details")
	}
	s.missing = lost
	for _, l := range lost {
		s.Log.Error("isolation is degraded", "op", "start", "lost", l.Capability, "code", l.Code, "found", l.Found, "cost", l.Cost, "agents", s.Config().Sandbox.Degraded)
	}
	return nil
}

// Missing returns what this machine cannot isolate.
func (s *Shims) Missing() []api.Loss { return s.missing }

// MissingNames returns the names of the isolation that this machine lacks.
func (s *Shims) MissingNames() []string { return isolation.Names(s.missing) }

// Lacks reports whether this machine lacks a kind of isolation (package isolation).
func (s *Shims) Lacks(capability string) bool { return isolation.Lacks(s.missing, capability) }
