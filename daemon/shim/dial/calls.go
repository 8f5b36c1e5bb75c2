package dial

import (
	"context"
	"net/http"

	"polis/daemon/api/wire"
)

// RestoreGate writes the rules of the agent's network again. Only for shims of wire.GateVersion and later.
func (s *Shim) RestoreGate(ctx context.Context) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/gate", nil, nil)
}

// Remount has the shim mount the agent's views again where another program has unmounted them. Only for shims of
// wire.RemountVersion and later.
func (s *Shim) Remount(ctx context.Context) (out wire.Remounted, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodPost, "/v1/remount", nil, &out)
}

// Blocked has the shim record that another firewall drops the agent's packets. Only for shims of wire.GateVersion
// and later.
func (s *Shim) Blocked(ctx context.Context, r wire.BlockedRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/blocked", r, nil)
}

// ReleaseIdle releases the agent's leases of files that no process uses. Only for shims of
// wire.ReleaseIdleVersion and later.
func (s *Shim) ReleaseIdle(ctx context.Context) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/release-idle", nil, nil)
}

// Invalidate makes the kernel drop its cache of the view, after the daemon changed the tree below
// it.
func (s *Shim) Invalidate(ctx context.Context) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/invalidate", nil, nil)
}
