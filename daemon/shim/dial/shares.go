package dial

import (
	"context"
	"net/http"

	"polis/daemon/api/wire"
)

// ShareModels replaces what the agent may use of the budget that its role shares, and returns what it has used. Only
// for shims of wire.SharesVersion and later.
func (s *Shim) ShareModels(ctx context.Context, r wire.Shares) (u wire.ShareUse, err error) {
	return u, s.call(ctx, s.Timeout, http.MethodPost, "/v1/models/shares", r, &u)
}
