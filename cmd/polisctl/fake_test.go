package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// fake answers the routes of polisd with the API's own types, so that stories of the command line
// need no kernel. Commands of agents are real processes (see shim_test.go).
type fake struct {
	dir, socket string
	end         func()
	now         time.Time

	mu       sync.Mutex
	agents   map[string]api.Agent
	locks    []api.Lock
	ports    []api.PortMapping
	queue    []api.QueueEntry
	busy     bool
	requests []string // "METHOD /path body"
	events   chan api.Event
}

func newFake(t testing.TB) *fake {
	// Not t.TempDir: a socket's path must be short.
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{
		dir: dir, socket: filepath.Join(dir, "polisd.sock"),
		now:    time.Now().Add(-5 * time.Minute).UTC().Truncate(time.Second),
		agents: map[string]api.Agent{}, events: make(chan api.Event, 16),
	}
	for _, n := range []string{"claude", "gemini"} {
		f.agents[n] = f.agent(api.AddRequest{Name: n, BaseType: n})
	}
	f.ports = []api.PortMapping{{Agent: "claude", Internal: 3000, External: 3001, Protocol: "tcp", Bind: "127.0.0.1", Served: true}}
	until := f.now.Add(5*time.Minute + 30*time.Second)
	f.locks = []api.Lock{{
		Workspace: "project", Path: "src/main.go", Holder: "claude", LockType: "write",
		AcquiredAt: f.now, ExpiresAt: &until, Token: 7, Waiters: []string{"gemini"},
	}}
	f.end = serve(t, f.socket, f.routes())
	serve(t, f.socket+".gone", f.routes())
	serve(t, filepath.Join(dir, "shim.sock"), newShim(t, dir))
	return f
}

// serve returns what ends the server.
func serve(t testing.TB, socket string, h http.Handler) (end func()) {
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	end = func() {
		_ = srv.Close()
		<-done
	}
	t.Cleanup(end)
	return end
}

func (f *fake) agent(r api.AddRequest) api.Agent {
	g := api.Agent{
		Name: r.Name, BaseType: r.BaseType, Workspace: "project", Status: api.StatusIdle, Branch: r.Branch, Role: r.Role,
		Command: r.Command, MemoryLimitMB: r.MemoryMB, PidsLimit: 512, CreatedAt: f.now,
		Counters: &api.Counters{ReadCount: 12, WriteCount: 3, WriteDenied: 1, AvgReadLatency: 1500},
	}
	if r.Name == "metered" {
		g.Models = &api.ModelUse{Key: r.Name, Requests: 12, InputTokens: 1_500_000, OutputTokens: 2500, CacheReadTokens: 999, Cost: map[string]float64{"EUR": 1.25}, Unpriced: 1,
			Budget: &api.ModelBudgetUse{Percent: 81, Bound: "day_tokens", Text: "1503499 of 1850000 tokens of the day"}}
	}
	if g.Branch == "" {
		g.Branch = "agent/" + r.Name
	}
	if g.MemoryLimitMB == 0 {
		g.MemoryLimitMB = 512
	}
	if r.Policy != nil {
		g.Policy = *r.Policy
	}
	for i, p := range r.Ports {
		g.PortMappings = append(g.PortMappings, api.PortMapping{Agent: r.Name, Internal: p, External: 3002 + i, Protocol: "tcp", Bind: "127.0.0.1"})
	}
	return g
}

// log returns the requests so far, one a line.
func (f *fake) log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, e *api.Error) { answer(w, e.Code.Status(), e) }

// take decodes a body, and notes the request.
func take[T any](f *fake, r *http.Request) T {
	var v T
	var raw json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&raw)
	_ = json.Unmarshal(raw, &v)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), raw))
	return v
}

func (f *fake) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]bool{"ok": true}) })
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, 200, api.DaemonStatus{
			Version: "1.2.3", PID: 42, ConfigFile: filepath.Join(f.dir, "polisd.toml"), StartedAt: f.now, IsolationMode: "full", Launcher: "fork", CgroupMode: "v1",
			Workspaces: []api.Workspace{f.workspace()}, Agents: f.sorted(), Locks: len(f.locks), Conflicts: api.ConflictCount{Merges: 1, Paths: 2}, Warnings: []string{"something is odd"},
		})
	})
	mux.HandleFunc("GET /v1/workspaces", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, 200, map[string]any{"workspaces": []api.Workspace{f.workspace()}})
	})
	mux.HandleFunc("POST /v1/workspaces", f.up)
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, 200, map[string]any{"agents": f.sorted()})
	})
	mux.HandleFunc("POST /v1/agents", f.add)
	mux.HandleFunc("GET /v1/agents/{name}", f.with(func(w http.ResponseWriter, _ *http.Request, g api.Agent) { answer(w, 200, g) }))
	mux.HandleFunc("DELETE /v1/agents/{name}", f.with(f.remove))
	mux.HandleFunc("PATCH /v1/agents/{name}", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		req := take[api.SetRequest](f, r)
		g.MemoryLimitMB, g.PidsLimit = max(req.MemoryMB, g.MemoryLimitMB), 512
		answer(w, 200, api.SetResponse{Agent: g, Later: []string{"the role's [locks]"}})
	}))
	mux.HandleFunc("POST /v1/agents/{name}/start", f.with(f.power(api.StatusRunning)))
	mux.HandleFunc("POST /v1/agents/{name}/stop", f.with(f.power(api.StatusStopped)))
	mux.HandleFunc("POST /v1/agents/{name}/run", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		req := take[api.RunRequest](f, r)
		answer(w, 200, api.Task{Agent: g.Name, Prompt: req.Prompt, Command: []string{"x", req.Prompt}, Time: f.now})
	}))
	mux.HandleFunc("POST /v1/agents/{name}/merge", f.with(f.merge))
	mux.HandleFunc("POST /v1/agents/{name}/pull-request", f.with(f.pull))
	mux.HandleFunc("POST /v1/agents/{name}/discard", f.with(f.remove))
	mux.HandleFunc("GET /v1/agents/{name}/logs", f.with(f.logs))
	mux.HandleFunc("GET /v1/agents/{name}/why", f.with(func(w http.ResponseWriter, _ *http.Request, g api.Agent) {
		held := f.now.Add(-18 * time.Second)
		answer(w, 200, map[string]any{"why": []api.WhyEntry{{
			Time: f.now, Op: "open", Path: "src/main.go", Code: api.CodeFileLocked, Errno: "EBUSY", Holder: "claude", Since: &held,
			Hint: "wait, or work on another file", Count: 2,
		}}})
	}))
	mux.HandleFunc("GET /v1/agents/{name}/policy", f.with(func(w http.ResponseWriter, _ *http.Request, g api.Agent) {
		answer(w, 200, api.Policy{Read: []string{"**"}, Write: []string{"src/**"}, Deny: []string{"*.pem"}, Temp: true})
	}))
	mux.HandleFunc("GET /v1/agents/{name}/tasks", f.with(func(w http.ResponseWriter, _ *http.Request, g api.Agent) {
		answer(w, 200, map[string]any{"tasks": []api.Task{{Agent: g.Name, Prompt: "first line\nsecond", Time: f.now, Models: g.Models}}})
	}))
	mux.HandleFunc("GET /v1/agents/{name}/attach", f.with(func(w http.ResponseWriter, _ *http.Request, g api.Agent) {
		answer(w, 200, api.Attach{Agent: g.Name, Socket: filepath.Join(f.dir, "shim.sock")})
	}))
	mux.HandleFunc("GET /v1/doctor", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, api.DoctorReport{Checks: []api.Check{{Name: "kernel", State: api.CheckOK, Found: "6.1"}, {Name: "clock", State: api.CheckWarn, Found: "not synchronized", Cost: "times of events"}}})
	})
	mux.HandleFunc("GET /v1/workspaces/{name}/checks", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, api.ProjectReport{Checks: []api.Finding{
			{Area: api.AreaGit, Name: "repository", Found: "a clone at /src", Works: api.WorksOK},
			{Area: api.AreaGit, Name: "hooks", Found: "git hooks in .git/hooks (pre-commit) do not run for agents and merges", Works: api.WorksPartly,
				Fix: "only if agents may run them: they run in the sandboxes", Command: "sudo polisctl config set git.hooks run"},
		}})
	})
	mux.HandleFunc("GET /v1/types", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"types": []map[string]any{
			{"name": "claude", "available": true, "program": "claude", "path": "/usr/bin/claude", "version": "2.1.3", "description": "Claude Code"},
			{"name": "gemini", "available": false, "program": "gemini", "description": "Gemini CLI", "reason": "gemini is not in PATH"},
			{"name": "custom", "available": true, "program": "", "description": "any command"},
		}})
	})
	var looks int64
	mux.HandleFunc("GET /v1/top", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		looks++
		models := f.agents["metered"].Models
		if models != nil {
			models = &api.ModelUse{Requests: looks, InputTokens: looks * 350, Cost: map[string]float64{"EUR": 0}}
		}
		use := api.Use{CPUMicros: uint64(looks) * 1_500_000, MemoryBytes: 300 << 20, WriteBytes: uint64(looks) << 20, Pids: 7, OpenFiles: 42}
		answer(w, 200, api.Top{Time: f.now.Add(time.Duration(looks) * time.Second), Host: api.TopHost{CPUs: 2, MemoryBytes: 8 << 30, AvailableBytes: 4 << 30},
			Polisd: api.Process{MemoryBytes: 20 << 20}, Total: use, TotalLimits: api.TotalLimits{Pids: 5000},
			Agents: []api.TopAgent{{Name: "claude", Status: api.StatusRunning, Models: models, Waiting: &api.Waiting{For: api.WaitingApproval, Since: f.now, ID: "claude.aaaaaaaa", What: "tool Bash make", Open: 1}, Use: use, MemoryLimitBytes: 512 << 20, PidsLimit: 64, Shim: api.Process{MemoryBytes: 6 << 20, CPUMicros: uint64(looks) * 100_000},
				Pressure: &api.Pressure{CPU: 12.4, Memory: 0, IO: 3}, LimitHits: []api.LimitHit{{Limit: "pids", Count: 3, Last: time.Now()}}}}})
	})
	mux.HandleFunc("GET /v1/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE polis_reads_total counter\npolis_reads_total{agent=\"claude\"} 12\npolis_reads_total{agent=\"gemini\"} 5\n")
	})
	f.lockRoutes(mux)
	f.queueRoutes(mux)
	f.snapshotRoutes(mux)
	f.receiptRoutes(mux)
	f.replayRoutes(mux)
	f.authorshipRoutes(mux)
	f.approvalRoutes(mux)
	f.roleRoutes(mux)
	f.policyRoutes(mux)
	mux.HandleFunc("GET /v1/events", f.streamEvents)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, api.Errorf(api.CodeNotFound, "no route %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func (f *fake) lockRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/locks", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		ws := r.URL.Query().Get("workspace")
		answer(w, 200, map[string]any{"locks": slices.DeleteFunc(slices.Clone(f.locks), func(l api.Lock) bool { return ws != "" && l.Workspace != ws })})
	})
	mux.HandleFunc("GET /v1/conflicts", f.conflicts)
	mux.HandleFunc("GET /v1/usage", func(w http.ResponseWriter, r *http.Request) {
		use := api.ModelUse{Key: map[string]string{"agent": "claude", "day": "2026-01-02"}[r.URL.Query().Get("by")], Requests: 12, Errors: 1, Estimated: 2,
			InputTokens: 1_500_000, OutputTokens: 2500, CacheReadTokens: 999, Cost: map[string]float64{"EUR": 1.25, "USD": 0.5}, FirstTokenMS: 420}
		if use.Key == "" {
			use = api.ModelUse{Key: map[string]string{"model": "big-1", "task": ""}[r.URL.Query().Get("by")], Requests: 3, InputTokens: 7, OutputTokens: 2, Unpriced: 3}
		}
		all := []api.ModelUse{use}
		if r.URL.Query().Get("since") == "2030-01-01" {
			all = nil
		}
		answer(w, 200, map[string]any{"usage": all})
	})
	f.maintenanceRoutes(mux)
	f.setupRoutes(mux)
	f.patrolRoutes(mux)
	mux.HandleFunc("POST /v1/locks", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.LockRequest](f, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, l := range f.locks {
			if l.Path == req.Path {
				refuse(w, api.Errorf(api.CodeFileLocked, "%s is locked by %s", l.Path, l.Holder).WithHint("wait with --wait, or polisctl unlock --break %s", l.Path))
				return
			}
		}
		l := api.Lock{Workspace: "project", Path: req.Path, Holder: "user:root", LockType: "write", AcquiredAt: f.now, Token: 8, Reason: req.Reason, Tree: req.Tree}
		f.locks = append(f.locks, l)
		answer(w, 200, l)
	})
	mux.HandleFunc("DELETE /v1/locks", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.LockRequest](f, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		n := len(f.locks)
		f.locks = slices.DeleteFunc(f.locks, func(l api.Lock) bool { return l.Path == req.Path })
		if n == len(f.locks) {
			refuse(w, api.Errorf(api.CodeNotLocked, "%s is not locked", req.Path))
			return
		}
		answer(w, 200, map[string]bool{"ok": true})
	})
	mux.HandleFunc("GET /v1/ports", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, 200, map[string]any{"ports": f.ports})
	})
	mux.HandleFunc("POST /v1/ports", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.PortRequest](f, r)
		if req.External == 3001 {
			refuse(w, api.Errorf(api.CodePortInUse, "port 3001 is in use"))
			return
		}
		m := api.PortMapping{Agent: req.Agent, Internal: req.Internal, External: 3002, Protocol: cmp.Or(req.Protocol, "tcp"), Bind: cmp.Or(req.Bind, "127.0.0.1"), Served: req.Agent == "claude"}
		if req.External != 0 && req.External != m.External {
			m.Wanted = req.External
		}
		added := api.PortsAdded{PortMapping: m}
		for i := range max(req.Last, req.Internal) - req.Internal + 1 {
			next := m
			next.Internal, next.External = m.Internal+i, m.External+i
			added.Ports = append(added.Ports, next)
		}
		answer(w, 201, added)
	})
	mux.HandleFunc("DELETE /v1/ports/{agent}/{internal}", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f, r)
		if r.PathValue("internal") != "3000" {
			refuse(w, api.Errorf(api.CodePortNotFound, "agent %s has no map of port %s", r.PathValue("agent"), r.PathValue("internal")))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (f *fake) workspace() api.Workspace {
	return api.Workspace{Name: "project", Path: "/srv/w", Project: "/srv/w/project", Git: true, TargetBranch: "main", Agents: len(f.agents)}
}

func (f *fake) sorted() []api.Agent {
	var out []api.Agent
	for _, g := range f.agents {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b api.Agent) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// with finds the agent of the path, as every such route of polisd does.
func (f *fake) with(fn func(http.ResponseWriter, *http.Request, api.Agent)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		g, ok := f.agents[r.PathValue("name")]
		f.mu.Unlock()
		if !ok {
			refuse(w, api.Errorf(api.CodeAgentNotFound, "there is no agent %q", r.PathValue("name")).WithHint("polisctl agents list"))
			return
		}
		fn(w, r, g)
	}
}

// lines answers a long call in the form the client asked for.
func lines(w http.ResponseWriter, r *http.Request, status int, steps []string, pause time.Duration, result any, failed *api.Error) {
	if r.Header.Get("Accept") != "application/x-ndjson" {
		if failed != nil {
			refuse(w, failed)
			return
		}
		answer(w, status, result)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	for _, s := range steps {
		_ = enc.Encode(map[string]string{"progress": s})
		_ = http.NewResponseController(w).Flush()
		time.Sleep(pause)
	}
	if failed != nil {
		_ = enc.Encode(map[string]any{"error": failed})
		return
	}
	_ = enc.Encode(map[string]any{"result": result})
}

func (f *fake) up(w http.ResponseWriter, r *http.Request) {
	req := take[api.UpRequest](f, r)
	var failed *api.Error
	if filepath.Base(req.Repo) == "missing" {
		failed = api.Errorf(api.CodeWorkspaceInvalid, "%s is not a directory", req.Repo)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	lines(w, r, 200, []string{"copying objects", "writing state"}, 0, api.UpResponse{Workspace: f.workspace(), Created: true}, failed)
}

func (f *fake) add(w http.ResponseWriter, r *http.Request) {
	req := take[api.AddRequest](f, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed *api.Error
	switch {
	case f.agents[req.Name].Name != "":
		failed = api.Errorf(api.CodeAgentExists, "agent %s exists", req.Name).WithHint("polisctl agents list")
	case req.BaseType == "kiro":
		failed = api.Errorf(api.CodeAgentTypeUnavailable, "base type kiro is not available: kiro is not in PATH").WithHint("polisctl agents types")
	default:
		f.agents[req.Name] = f.agent(req)
	}
	var pause time.Duration
	if req.Role == "slow" {
		pause = 600 * time.Millisecond
	}
	lines(w, r, 201, []string{"creating worktree", "starting sandbox"}, pause, f.agents[req.Name], failed)
}

func (f *fake) remove(w http.ResponseWriter, r *http.Request, g api.Agent) {
	take[struct{}](f, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.agents, g.Name)
	answer(w, 200, api.RemoveResponse{Name: g.Name, Trash: "refs/polis/trash/" + g.Name + "/1"})
}

func (f *fake) power(s api.Status) func(http.ResponseWriter, *http.Request, api.Agent) {
	return func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		take[struct{}](f, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		s := s
		if ready := r.URL.Query().Get("idle") != ""; ready && g.Status == api.StatusRunning {
			s = g.Status
		} else if ready {
			s = api.StatusIdle
		} else if g.Status == s {
			refuse(w, api.Errorf(api.CodeBadState, "agent %s is already %s", g.Name, s))
			return
		}
		g.Status = s
		f.agents[g.Name] = g
		answer(w, 200, g)
	}
}

func (f *fake) merge(w http.ResponseWriter, r *http.Request, g api.Agent) {
	req := take[api.MergeRequest](f, r)
	if g.Name == "gemini" {
		refuse(w, api.Errorf(api.CodeMergeConflict, "branch agent/gemini conflicts with main").With("paths", []string{"a.txt", "b\x1b[31m.txt"}).
			WithHint("polisctl agents exec gemini -- git merge main"))
		return
	}
	if g.Name == "idle" {
		refuse(w, api.Errorf(api.CodeNothingToMerge, "main has every commit of %s already", g.Branch))
		return
	}
	answer(w, 200, api.MergeResponse{
		Agent: g.Name, Branch: g.Branch, Target: "main", MergeCommitSHA: "0123456789abcdef0123", MergeStatus: api.MergeMerged, DryRun: req.DryRun,
		Paths: []string{"src/main.go"},
	})
}

func (f *fake) pull(w http.ResponseWriter, r *http.Request, g api.Agent) {
	req := take[api.PullRequest](f, r)
	resp := api.PullResponse{
		Agent: g.Name, Branch: g.Branch, Target: "main", Commit: "0123456789abcdef0123", Remote: "origin", RemoteURL: "https://github.com/o/r", Pushed: true,
		Tool: "gh", URL: "https://github.com/o/r/pull/7", Title: "t", Body: "b", Commits: 2, Draft: req.Draft, DryRun: req.DryRun,
	}
	if g.Name == "gemini" {
		resp.Tool, resp.URL, resp.CompareURL, resp.RequestPull = "", "", "https://codeberg.org/o/r/compare/main...x", "The following changes since ..."
		resp.Notes = []string{"3 changes are not committed \x1b[31m"}
	}
	answer(w, 200, resp)
}

func (f *fake) logs(w http.ResponseWriter, r *http.Request, g api.Agent) {
	w.Header().Set("Content-Type", "text/plain")
	n, _ := strconv.Atoi(r.URL.Query().Get("lines"))
	for i := max(0, 100-n); i < 100; i++ {
		fmt.Fprintf(w, "line %d\n", i)
	}
	if r.URL.Query().Get("follow") == "1" {
		_ = http.NewResponseController(w).Flush()
		for i := range 3 {
			fmt.Fprintf(w, "new %d\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func (f *fake) streamEvents(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
	send := func(e api.Event) {
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, b)
		_ = http.NewResponseController(w).Flush()
	}
	follow := r.URL.Query().Get("follow") == "1"
	if follow {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\n")
	}
	past := []api.Event{}
	for i, e := range []api.Event{
		{Type: api.EventAgentCreated, Agent: "claude", Message: "agent claude was added"},
		{Type: api.EventDenied, Agent: "gemini", Code: api.CodeUndeclaredWrite, Message: "write of \x1b]0;evil\x07.pem refused"},
	} {
		e.ID, e.Time = uint64(i+1), f.now
		switch {
		case e.ID <= since:
		case follow:
			send(e)
		default:
			past = append(past, e)
		}
	}
	if !follow {
		answer(w, 200, map[string]any{"events": past})
		return
	}
	for {
		select {
		case e, ok := <-f.events:
			if !ok {
				return
			}
			send(e)
		case <-r.Context().Done():
			return
		}
	}
}
