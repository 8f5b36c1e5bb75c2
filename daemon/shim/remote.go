package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/shim/wire"
)

// remoteHelper is what git runs for a remote with vcs = polis.
const remoteHelper = "#!/bin/sh\nexec " + wire.ToolPath + " git-remote \"$@\"\n"

// maxRemotes bounds the simultaneous exchanges of an agent.
const maxRemotes = 4

// openRemote puts the remote helper and the mount point for polisctl into binDir.
func (s *Shim) openRemote() error {
	if !hasTool(s.Spec) {
		return nil
	}
	dir := filepath.Join(s.insideDir(), "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"git-remote-polis": remoteHelper, filepath.Base(wire.ToolPath): ""} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o755), os.Chmod(path, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

func hasTool(spec wire.Spec) bool {
	return slices.ContainsFunc(spec.Mounts, func(m wire.Mount) bool { return m.Dest == wire.ToolPath })
}

// insideRemote forwards a request about a remote to the daemon, in the name of this agent only,
// and streams the answer back. The daemon decides, without regard to what the agent says about
// itself.
func (s *Shim) insideRemote(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.inside.remotes <- struct{}{}:
		defer func() { <-s.inside.remotes }()
	default:
		return api.Errorf(api.CodeQuota, "agent %s has %d exchanges with remotes under way: that is the limit", s.Spec.Agent, maxRemotes)
	}
	socket := layout.Run(filepath.Dir(s.Spec.LockSocket)).Socket()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		return d.DialContext(ctx, "unix", socket)
	}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://polisd/v1/agents/"+s.Spec.Agent+"/remote", io.LimitReader(r.Body, maxBody))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", r.Header.Get("Accept"))
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return api.Errorf(api.CodeUnavailable, "polisd does not answer: %w", err).WithHint("it may be restarting; try again in a few seconds")
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return nil //nolint:nilerr // the client left
			}
			if rc.Flush() != nil {
				return nil
			}
		}
		if err != nil {
			return nil //nolint:nilerr // its reader notices an answer that is cut short
		}
	}
}
