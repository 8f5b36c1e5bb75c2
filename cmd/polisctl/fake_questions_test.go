package main

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// asking is a fake whose agent claude has a task that asks questions.
type asking struct {
	*fake
	mu     sync.Mutex
	open   []api.Approval
	closed map[string]api.Approval
	lists  int
	ended  chan struct{}
}

// newAsking has a question of claude open, one of another agent, and a second one of claude with an ugly text if two is set.
func newAsking(t *testing.T, two bool) *asking {
	f := &asking{fake: newFake(t), closed: map[string]api.Approval{}, ended: make(chan struct{})}
	one := api.Approval{ID: "claude.aaaaaaaa", Agent: "claude", Workspace: "project", Task: "claude.3", Kind: api.ApprovalTool, Tool: "Bash", Class: api.ToolShell,
		What: "make", PID: 42, Program: `sh\x1b[2K`, Callers: 1, Since: f.now, Deadline: f.now.Add(time.Hour), Remember: "Bash(make)"}
	other, second := one, one
	other.ID, other.Agent = "gemini.bbbbbbbb", "gemini"
	second.ID, second.Kind, second.Tool, second.What = "claude.dddddddd", api.ApprovalWrite, "", "a\x1b[2Jb"
	f.open = []api.Approval{other, one}
	if two {
		f.open = append(f.open, second)
	}
	f.socket += ".asking"
	serve(t, f.socket, f.routes())
	return f
}

func (f *asking) routes() http.Handler {
	mux := http.NewServeMux()
	task := func() api.Task {
		tk := api.Task{ID: "claude.3", Agent: "claude", State: api.TaskRunning, Time: f.now}
		select {
		case <-f.ended:
			tk.State, tk.Final, tk.EndedBy, tk.ExitCode, tk.Result = api.TaskEnded, true, api.EndExit, new(int), "ended well"
		default:
		}
		return tk
	}
	mux.HandleFunc("POST /v1/agents/{name}/run", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, task()) })
	mux.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("wait") != "" {
			select {
			case <-f.ended:
			case <-r.Context().Done():
			}
		}
		answer(w, 200, task())
	})
	mux.HandleFunc("GET /v1/approvals", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f.fake, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lists++
		answer(w, 200, map[string]any{"approvals": f.open})
	})
	mux.HandleFunc("GET /v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, v := range f.open {
			if v.ID == r.PathValue("id") {
				answer(w, 200, v)
				return
			}
		}
		answer(w, 200, f.closed[r.PathValue("id")])
	})
	mux.HandleFunc("POST /v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.AnswerRequest](f.fake, r)
		answer(w, 200, f.answered(r.PathValue("id"), api.Answer{Verdict: req.Verdict, Scope: req.Scope, Reason: req.Reason, By: "user:0"}))
	})
	mux.Handle("/", f.fake.routes())
	return mux
}

// answered closes a question.
func (f *asking) answered(id string, a api.Answer) (v api.Approval) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = slices.DeleteFunc(f.open, func(o api.Approval) bool {
		if o.ID != id {
			return false
		}
		v = o
		return true
	})
	v.Answer = &a
	f.closed[id] = v
	return v
}

func (f *asking) endTask() { close(f.ended) }

// listed waits until the questions were listed so many times.
func (f *asking) listed(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.lists >= n }, 20*time.Second, 10*time.Millisecond)
}
