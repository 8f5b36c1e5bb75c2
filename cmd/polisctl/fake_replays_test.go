package main

import (
	"encoding/json"
	"net/http"

	"polis/daemon/api"
)

// replayRoutes answer about replays: that of claude.1 is as the task was, that of claude.2 is not.
func (f *fake) replayRoutes(mux *http.ServeMux) {
	of := map[string]string{}
	mux.HandleFunc("POST /v1/tasks/{id}/replay", func(w http.ResponseWriter, r *http.Request) {
		var req api.ReplayRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.PathValue("id") == "claude.9" {
			answer(w, 404, api.Errorf(api.CodeNotFound, "there is no recording of task claude.9"))
			return
		}
		if req.Name == "" {
			req.Name = "gemini"
		}
		f.mu.Lock()
		of[req.Name] = r.PathValue("id")
		f.mu.Unlock()
		answer(w, 201, api.Replay{Of: r.PathValue("id"), Agent: req.Name, Task: req.Name + ".1", ReplayCounts: api.ReplayCounts{Recorded: 4}})
	})
	mux.HandleFunc("GET /v1/agents/{name}/replay", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		name := r.PathValue("name")
		out := api.Replay{Of: of[name], Agent: name, Task: name + ".1", Ended: true, Result: "not merged: auto_merge is off", Tree: api.TreeSame,
			ReplayCounts: api.ReplayCounts{Recorded: 4, Matched: 4, Repeated: 1}}
		if out.Of == "claude.2" {
			out.Tree, out.Paths, out.Stopped = api.TreeDifferent, []string{"main.go", "evil\x1b[2J"}, "it has the 64 MiB that a recording can have"
			out.ReplayCounts = api.ReplayCounts{Recorded: 4, Matched: 2, Ordered: 1, Unmatched: 1, Differences: []string{"request 2 of the replay differs"}}
		}
		answer(w, 200, out)
	})
}
