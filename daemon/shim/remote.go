package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/approval"
	"polis/daemon/layout"
	"polis/daemon/setting"
	"polis/daemon/shim/wire"
	"polis/fusefs/view"
)

// remoteHelper is the program that git runs for a remote with vcs = polis.
const remoteHelper = "#!/bin/sh\nexec " + wire.ToolPath + " git-remote \"$@\"\n"

// maxRemotes is the most exchanges with remotes that an agent may have at a time.
const maxRemotes = 4

// mimeLines is the type of a response that is streamed in lines of JSON.
const mimeLines = "application/x-ndjson"

// openRemote installs the remote helper, and the mount points for polisctl and polis-adapter, in
// binDir.
func (s *Shim) openRemote() error {
	if !hasTool(s.Spec) {
		return nil
	}
	dir := filepath.Join(s.insideDir(), "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{"git-remote-polis": remoteHelper, filepath.Base(wire.ToolPath): ""}
	if mounted(s.Spec, wire.AdapterPath) {
		files[filepath.Base(wire.AdapterPath)] = ""
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o755), os.Chmod(path, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

func hasTool(spec wire.Spec) bool {
	return mounted(spec, wire.ToolPath)
}

func mounted(spec wire.Spec, dest string) bool {
	return slices.ContainsFunc(spec.Mounts, func(m setting.Mount) bool { return m.Dest == dest })
}

// insideRemote forwards a request about a remote to the daemon, in the name of this agent, and
// streams the response back. The daemon decides, and ignores what the agent claims about itself.
// If it requires an approval, the request waits here for the answer, and is then sent again.
func (s *Shim) insideRemote(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return api.Errorf(api.CodeBadRequest, "read the request: %w", err)
	}
	var ask api.RemoteRequest
	if err := json.Unmarshal(body, &ask); err == nil && ask.Op == api.RemoteObjects {
		return s.insideObjects(w, r, body)
	}
	accept, approved := r.Header.Get("Accept"), ""
	out := &remoteStream{w: w}
	for range maxRemoteAsks {
		resp, done, err := s.remoteExchange(r.Context(), body, accept, approved)
		if err != nil {
			return out.fail(err)
		}
		if resp.question == nil {
			defer done()
			return out.copy(resp)
		}
		done() // a question occupies no place
		if strings.Contains(accept, mimeLines) {
			out.line(map[string]any{"progress": "this needs an approval: " + approval.Escape(api.Shorten(resp.question.Text, 200))})
		}
		if err := s.approveRemote(r, *resp.question); err != nil {
			return out.fail(err)
		}
		approved = resp.question.Key
	}
	return out.fail(api.Errorf(api.CodeNotApproved, "the rules for remotes changed with each answer").WithHint("try again"))
}

// askDaemon sends a request of this agent's to a route of polisd that is for shims.
func (s *Shim) askDaemon(ctx context.Context, route string, body []byte, accept, approved string) (*http.Response, error) {
	socket := layout.Run(filepath.Dir(s.Spec.LockSocket)).Socket()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		return d.DialContext(ctx, "unix", socket)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://polisd/v1/agents/"+s.Spec.Agent+"/"+route, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	if approved != "" {
		req.Header.Set(api.RemoteApproved, approved)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, api.Errorf(api.CodeUnavailable, "polisd does not answer: %w", err).WithHint("it may be restarting; try again in a few seconds")
	}
	return resp, nil
}

// insideObjects serves objects that the agent's git lacks, and records those that its rules
// withhold.
func (s *Shim) insideObjects(w http.ResponseWriter, r *http.Request, body []byte) error {
	select {
	case s.inside.objects <- struct{}{}:
		defer func() { <-s.inside.objects }()
	case <-r.Context().Done():
		return api.Errorf(api.CodeTimeout, "objects for git of agent %s: an earlier request is not finished", s.Spec.Agent)
	}
	resp, err := s.askDaemon(r.Context(), "remote", body, "application/json", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return api.Errorf(api.CodeUnavailable, "polisd does not answer: %w", err)
	}
	var res api.RemoteResponse
	if resp.StatusCode == http.StatusOK && json.Unmarshal(text, &res) == nil {
		for id, path := range res.Refused {
			s.withheld(id, path)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(text) //nolint:errcheck // the client left
	return nil
}

// withheld records an object that was withheld.
func (s *Shim) withheld(id, path string) {
	if path == "" {
		path = ".git/objects/" + id[:2] + "/" + id[2:]
	}
	s.denied(view.Denial{Time: time.Now(), Op: "read from git's history", Path: path, Code: view.CodeUndeclaredRead, Errno: "EACCES",
		Hint: "the agent's rules withhold this file, and so its content in all commits"})
}
