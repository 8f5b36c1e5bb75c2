package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/rules/approval"
	"polis/daemon/store/layout"
	"polis/fusefs/policy"
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
		return s.insideObjects(w, r, ask.Objects)
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

// insideObjects serves objects that the agent's git lacks. It asks about those that an "ask" rule names, and
// records those that the agent's rules withhold.
func (s *Shim) insideObjects(w http.ResponseWriter, r *http.Request, ids []string) error {
	res, err := s.objects(r.Context(), ids, "")
	if err != nil {
		return err
	}
	if len(res.Ask) > 0 {
		pid, _ := caller(r)
		pid = outermostGit(pid)
		if res, err = s.askObjects(r.Context(), res, pid); err != nil {
			return err
		}
	}
	for id, path := range res.Refused {
		s.withheld(id, path)
	}
	return writeJSON(w, res)
}

// objects requests objects of polisd.
func (s *Shim) objects(ctx context.Context, ids []string, approved string) (res api.RemoteResponse, err error) {
	select { // not while a question is open
	case s.inside.objects <- struct{}{}:
		defer func() { <-s.inside.objects }()
	case <-ctx.Done():
		return res, api.Errorf(api.CodeTimeout, "objects for git of agent %s: an earlier request is not finished", s.Spec.Agent)
	}
	body, err := json.Marshal(api.RemoteRequest{Op: api.RemoteObjects, Objects: ids})
	if err != nil {
		return res, err
	}
	resp, err := s.askDaemon(ctx, "remote", body, "application/json", approved)
	if err != nil {
		return res, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return res, api.Errorf(api.CodeUnavailable, "polisd does not answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		var e api.Error
		if err := json.Unmarshal(text, &e); err != nil || e.Code == "" {
			return res, api.Errorf(api.CodeUnavailable, "polisd answers with status %d", resp.StatusCode)
		}
		return res, &e
	}
	err = json.Unmarshal(text, &res)
	return res, err
}

// askObjects asks a person about the objects in res.Ask, as about reading the files, and requests those that
// may be read.
func (s *Shim) askObjects(ctx context.Context, res api.RemoteResponse, pid int) (api.RemoteResponse, error) {
	byPath := map[string][]string{}
	for id, path := range res.Ask {
		byPath[path] = append(byPath[path], id)
	}
	paths := slices.Sorted(maps.Keys(byPath))
	var may []string
	for paths := range slices.Chunk(paths, maxAskedObjects) {
		v, err := s.pathAsker.Ask(ctx, view.Request{Agent: s.Spec.Agent, Op: "read from git's history", Rule: "ask", Paths: paths, Pid: uint32(pid)}) //nolint:gosec // a pid
		if err != nil {
			return res, err
		}
		for _, path := range paths {
			if v.Allow {
				may = append(may, byPath[path]...)
			}
		}
	}
	if len(may) == 0 {
		return res, nil
	}
	got, err := s.objects(ctx, may, api.RemoteAsked)
	if err != nil {
		return res, err
	}
	for _, id := range may {
		if path, no := got.Refused[id]; no {
			res.Refused[id] = path
		} else {
			delete(res.Refused, id)
		}
	}
	return res, nil
}

// outermostGit is the git for which a helper of that pid works: a git starts another for each file that it
// misses, and an answer for once applies to the one that the agent has started.
func outermostGit(pid int) int {
	for at, n := pid, 0; at > 1 && n < 6; n++ {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", at))
		if err != nil {
			break
		}
		name, parent := "", 0
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch key {
			case "Name":
				name = value
			case "PPid":
				parent, _ = strconv.Atoi(value) //nolint:errcheck // the kernel's
			}
		}
		if strings.HasPrefix(name, "git") {
			pid = at
		} else if n > 1 {
			break
		}
		at = parent
	}
	return pid
}

// maxAskedObjects is the most files of one question.
const maxAskedObjects = 64

// withheld records an object that was withheld.
func (s *Shim) withheld(id, path string) {
	if path == "" {
		path = ".git/objects/" + id[:2] + "/" + id[2:]
	}
	var rule string
	if d := s.views.guard.Policy().DecideThrough(path, false); d.Read == policy.Deny {
		rule = d.Rule
	}
	s.denied(view.Denial{Time: time.Now(), Op: "read from git's history", Path: path, Code: view.CodeUndeclaredRead, Errno: "EACCES", Rule: rule,
		Hint: "the agent's rules withhold this file, and so its content in all commits"})
}
