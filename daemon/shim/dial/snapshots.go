package dial

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"polis/daemon/api/wire"
)

// Mount mounts a snapshot. Mount and Unmount are only for shims of wire.SnapshotsVersion and later.
func (s *Shim) Mount(ctx context.Context, r wire.MountRequest) (out wire.Mounted, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodPost, "/v1/snapshots", r, &out)
}

// Unmount unmounts a snapshot, on the host or in the sandbox.
func (s *Shim) Unmount(ctx context.Context, id string, inside bool) (out wire.Mounted, err error) {
	path := "/v1/snapshots/" + url.PathEscape(id)
	if inside {
		path += "?inside=true"
	}
	return out, s.call(ctx, s.Timeout+30*time.Second, http.MethodDelete, path, nil, &out)
}
