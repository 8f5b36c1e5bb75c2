package main

import (
	"encoding/json"
	"net/http"
	"time"

	"polis/daemon/api"
)

// setupRoutes answers with one workspace whose setup is ready, and one whose setup failed.
func (f *fake) setupRoutes(mux *http.ServeMux) {
	ready := api.Setup{Workspace: "project", State: api.SetupReady, Run: "npm ci", Inputs: []string{"package-lock.json"},
		Results: []api.SetupResult{{ID: "0123-1", Current: true, MadeAt: f.now.Add(-time.Hour), Seconds: 12.34, Bytes: 300 << 20, Files: 4000, Outputs: []string{"node_modules/"},
			Agents: []string{"claude", "codex"}, Dropped: 2, Drops: []string{"package-lock.json", "evil\x1b[2J"}}}}
	failed := f.now.Add(-time.Minute)
	mux.HandleFunc("GET /v1/setups", func(w http.ResponseWriter, r *http.Request) {
		take[any](f, r)
		all := []api.Setup{ready, {Workspace: "other", State: api.SetupFailed, Run: "make deps", Inputs: []string{"go.sum"}, FailedAt: &failed, Error: "the command ended with exit code 7", Log: "/logs/x.log", Results: []api.SetupResult{}}}
		if ws := r.URL.Query().Get("workspace"); ws != "" {
			all = []api.Setup{{Workspace: ws, State: api.SetupOff, Inputs: []string{}, Results: []api.SetupResult{}}}
		}
		answer(w, 200, map[string]any{"setups": all})
	})
	mux.HandleFunc("POST /v1/setups", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.SetupRequest](f, r)
		if req.Workspace == "broken" {
			refuse(w, api.Errorf(api.CodeSetupFailed, "run the setup command: the command ended with exit code 7").WithHint("polisctl setup log shows its output"))
			return
		}
		res := ready
		if req.Again {
			res.Results = append([]api.SetupResult{{ID: "0123-2", Current: true, MadeAt: f.now, Outputs: []string{}, Agents: []string{}}}, res.Results...)
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		enc := json.NewEncoder(w)
		for _, line := range []map[string]any{{"progress": "running the setup of workspace project"}, {"result": res}} {
			if enc.Encode(line) != nil {
				return
			}
		}
	})
	mux.HandleFunc("GET /v1/setups/log", func(w http.ResponseWriter, r *http.Request) {
		take[any](f, r)
		answer(w, 200, api.SetupLog{Workspace: "project", Log: "/logs/x.log", Text: "added 4000 files\nevil \x1b[2J\n", Truncated: true})
	})
}
