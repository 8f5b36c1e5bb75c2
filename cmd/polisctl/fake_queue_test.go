package main

import (
	"fmt"
	"net/http"
	"slices"

	"polis/daemon/api"
)

// queueRoutes answer about merges, and what is reverted and restored.
// gemini is the one with whom nothing goes well.
func (f *fake) queueRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/queue", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		all := []api.Queue{}
		if ws := r.URL.Query().Get("workspace"); ws == "" || ws == "project" {
			all = append(all, api.Queue{Workspace: "project", Target: "main", Entries: append([]api.QueueEntry{}, f.queue...), Recent: []api.QueueOutcome{
				{Agent: "old", Tasks: []string{"old.3"}, At: f.now, MergeStatus: api.MergeMerged, MergeCommitSHA: "0123456789abcdef0123"},
				{ID: "gemini.4", Agent: "gemini", At: f.now, MergeStatus: api.MergePending, Code: api.CodeCheckFailed, Message: "the check ended with \x1b[31mexit code 1"},
			}, Signals: []api.MergeSignal{
				{ID: "gemini.4", Agent: "gemini", State: api.MergeSignalFailed, Ended: &f.now, Log: "/logs/4.log"},
				{ID: "gemini.5", Agent: "gemini", State: api.MergeSignalMerged, Ended: &f.now, Log: "/logs/5.log"},
			}})
		}
		answer(w, 200, map[string]any{"queues": all})
	})
	mux.HandleFunc("GET /v1/queue/{name}/log", f.checkLog)
	mux.HandleFunc("GET /v1/queue/{name}/log/output", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "id=gemini.4&workspace=project" {
			refuse(w, api.Errorf(api.CodeBadRequest, "%s", r.URL.RawQuery))
			return
		}
		fmt.Fprint(w, printed)
	})
	mux.HandleFunc("POST /v1/queue", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.QueueRequest](f, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := f.agents[req.Agent]; !ok {
			refuse(w, api.Errorf(api.CodeAgentNotFound, "there is no agent %q", req.Agent))
			return
		}
		e := api.QueueEntry{Agent: req.Agent, Priority: req.Priority, By: "user", AddedAt: f.now, State: api.QueueWaiting, Seq: 1}
		f.queue = append(f.queue, e)
		answer(w, 200, e)
	})
	mux.HandleFunc("POST /v1/queue/{name}", f.queued(func(i int, req api.QueueRequest) { f.queue[i].Priority = req.Priority }))
	mux.HandleFunc("DELETE /v1/queue/{name}", f.queued(func(i int, _ api.QueueRequest) { f.queue = slices.Delete(f.queue, i, i+1) }))
	mux.HandleFunc("POST /v1/agents/{name}/revert", f.with(f.revert))
	mux.HandleFunc("POST /v1/agents/{name}/restore", f.restore)
	mux.HandleFunc("POST /v1/agents/{name}/rebase", f.with(f.rebase))
	mux.HandleFunc("GET /v1/agents/{name}/diff", f.with(f.diff))
	mux.HandleFunc("POST /v1/gc", f.gc)
	mux.HandleFunc("DELETE /v1/workspaces/{name}", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.busy {
			refuse(w, api.Errorf(api.CodeUnsavedWork, "workspace project is kept, and every agent in it: agent claude has work that is nowhere else").WithHint("merge or stop them; --force removes them"))
			return
		}
		switch name := r.PathValue("name"); name {
		case "nosuch":
			refuse(w, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %q", name))
			return
		case "gone":
			answer(w, 200, api.DownResponse{Workspace: name, Path: "/srv/gone", Gone: true})
			return
		}
		answer(w, 200, api.DownResponse{Workspace: r.PathValue("name"), Path: "/srv/w", Removed: []api.RemoveResponse{{Name: "claude", Trash: "refs/polis/trash/claude/1"}, {Name: "gemini"}}})
	})
	mux.HandleFunc("POST /v1/agents/{name}/send", f.with(f.send))
	mux.HandleFunc("POST /v1/agents/{name}/say", f.with(f.say))
	mux.HandleFunc("POST /v1/broadcast", f.broadcast)
}

// printed is what a check printed: a sequence that never ends would hide what follows it.
const printed = "ok  first\n\x1b]0;\npolisctl: agent gemini is merged\n\x1b[31mFAIL\x1b[m second\r\nlast"

func (f *fake) checkLog(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.PathValue("name") == "twice" && q.Get("workspace") == "":
		refuse(w, api.Errorf(api.CodeBadRequest, "several workspaces have checks of an agent twice, which was removed: a, b").WithHint("--workspace NAME"))
		return
	case q.Get("check") == "9":
		refuse(w, api.Errorf(api.CodeNotFound, "check = 9: agent gemini has 2 checks").WithHint("polisctl queue shows the last results"))
		return
	}
	text := printed
	if q.Get("lines") == "1" {
		text = "last"
	}
	answer(w, 200, api.CheckLog{Workspace: "project", Agent: r.PathValue("name"), Check: 2, Checks: 2, ID: "gemini.4", At: &f.now, Code: api.CodeCheckFailed,
		Message: "the check ended with exit code 1", Command: "make test\nmake lint", Log: "/logs/4.log", Bytes: int64(len(printed)), Text: text, Truncated: text != printed})
}

// queued changes the entry of an agent that is in the queue.
func (f *fake) queued(change func(int, api.QueueRequest)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := take[api.QueueRequest](f, r)
		f.mu.Lock()
		defer f.mu.Unlock()
		i := slices.IndexFunc(f.queue, func(e api.QueueEntry) bool { return e.Agent == r.PathValue("name") })
		if i < 0 {
			refuse(w, api.Errorf(api.CodeNotFound, "agent %s is not in the merge queue", r.PathValue("name")).WithHint("polisctl queue shows who is"))
			return
		}
		change(i, req)
		answer(w, 200, struct{}{})
	}
}

func (f *fake) revert(w http.ResponseWriter, r *http.Request, g api.Agent) {
	req := take[api.RevertRequest](f, r)
	if g.Name == "gemini" {
		refuse(w, api.Errorf(api.CodeBadState, "nothing of agent gemini was merged: there is nothing to revert").WithHint("polisctl merge gemini merges it"))
		return
	}
	resp := api.RevertResponse{Agent: g.Name, Target: "main", MergeCommitSHA: "0123456789abcdef0123", RevertCommitSHA: "fedcba98765432100123", MergeStatus: api.MergeReverted,
		Later: 2, Warning: "2 merges were made after this one; they stay, and may build on what is reverted", DryRun: req.DryRun, Paths: []string{"src/main.go"}, Project: "updated"}
	if req.DryRun {
		resp.RevertCommitSHA, resp.Project = "", ""
	}
	answer(w, 200, resp)
}

func (f *fake) restore(w http.ResponseWriter, r *http.Request) {
	req := take[api.RestoreRequest](f, r)
	name := r.PathValue("name")
	if name != "gone" {
		refuse(w, api.Errorf(api.CodeNotFound, "the trash has no work of an agent %s", name).WithHint("polisctl gc --dry-run lists the trash"))
		return
	}
	if req.As != "" {
		name = req.As
	}
	g := f.agent(api.AddRequest{Name: name, BaseType: "claude", Branch: req.Branch})
	f.mu.Lock()
	f.agents[name] = g
	f.mu.Unlock()
	answer(w, 200, g)
}

func (f *fake) rebase(w http.ResponseWriter, r *http.Request, g api.Agent) {
	take[struct{}](f, r)
	if g.Name == "gemini" {
		refuse(w, api.Errorf(api.CodeMergeConflict, "main is in the worktree of agent gemini, with 1 file in conflict").With("paths", []string{"a\x1b[2J.txt"}).
			WithHint("have the agent resolve and commit"))
		return
	}
	answer(w, 200, api.RebaseResponse{Agent: g.Name, Branch: g.Branch, Target: "main", Head: "0123456789abcdef0123"})
}

func (f *fake) diff(w http.ResponseWriter, r *http.Request, g api.Agent) {
	take[struct{}](f, r)
	if g.Name == "gemini" {
		refuse(w, api.Errorf(api.CodeBadState, "workspace plain is not a git repository: there is nothing to compare"))
		return
	}
	fmt.Fprint(w, "--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-old\n+new\n")
}

func (f *fake) gc(w http.ResponseWriter, r *http.Request) {
	req := take[api.GCRequest](f, r)
	answer(w, 200, api.GCResponse{DryRun: req.DryRun,
		Removed: []api.TrashEntry{{Workspace: "project", Agent: "gone", Ref: "refs/polis/trash/gone/1", Time: f.now, Bytes: 4096}},
		Kept:    []api.TrashEntry{{Workspace: "project", Agent: "young", Path: "/srv/w/.polis/trash/young", Time: f.now}}})
}

func (f *fake) send(w http.ResponseWriter, r *http.Request, g api.Agent) {
	req := take[api.SendRequest](f, r)
	if g.Name == "gemini" {
		refuse(w, api.Errorf(api.CodeBadState, "agent gemini is Idle: it runs nothing to send to").WithHint("polisctl agents run gemini gives it a task"))
		return
	}
	answer(w, 200, api.Task{Agent: g.Name, Prompt: req.Text, Time: f.now, Via: api.TaskSent})
}

func (f *fake) say(w http.ResponseWriter, r *http.Request, g api.Agent) {
	req := take[api.SayRequest](f, r)
	answer(w, 200, api.SayResponse{Message: "queued as " + g.Name + ".4, after " + g.Name + ".3 ends, in the same conversation",
		Task: api.Task{ID: g.Name + ".4", Agent: g.Name, Prompt: req.Text, Time: f.now, State: api.TaskQueued, Said: &api.Said{By: "user:0", Way: api.SayQueued}}})
}

func (f *fake) broadcast(w http.ResponseWriter, r *http.Request) {
	req := take[api.BroadcastRequest](f, r)
	resp := api.BroadcastResponse{Results: []api.BroadcastResult{{Agent: "claude"}}}
	switch req.Workspace {
	case "empty":
		resp.Results = nil
	case "odd":
		resp.Results = append(resp.Results, api.BroadcastResult{Agent: "gemini", Error: &api.Error{Code: api.CodeShimUnavailable, Message: "the sandbox of gemini does not answer"}})
	}
	answer(w, 200, resp)
}
