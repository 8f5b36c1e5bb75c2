package dial

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"polis/daemon/api/wire"
)

// Opens confirms the answer before, and returns what the agent opened since then. If that is nothing it
// waits for some time, unless now is set. Only for shims of a spec with Audit.
func (s *Shim) Opens(ctx context.Context, life, after uint64, now bool) (out wire.Opens, err error) {
	path := "/v1/opens?life=" + strconv.FormatUint(life, 10) + "&after=" + strconv.FormatUint(after, 10)
	if now {
		path += "&now=1"
	}
	return out, s.call(ctx, s.Timeout+30*time.Second, http.MethodGet, path, nil, &out)
}

// OpensStored returns when everything is confirmed that was recorded before the call, or ctx ends.
func (s *Shim) OpensStored(ctx context.Context) error {
	var first, now wire.OpensCount
	for i := 0; ; i++ {
		if err := s.call(ctx, s.Timeout, http.MethodGet, "/v1/opens?count=1", nil, &now); err != nil {
			return err
		}
		if i == 0 {
			first = now
		}
		if now.Confirmed >= first.Recorded {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
