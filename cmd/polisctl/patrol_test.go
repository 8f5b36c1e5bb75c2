package main

import (
	"net/http"
	"time"

	"polis/daemon/api"
)

// patrolRoutes answers with a last cycle in which one agent was stalled, and with a cycle on demand
// that finds nothing.
func (f *fake) patrolRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/patrol", func(w http.ResponseWriter, r *http.Request) {
		take[any](f, r)
		answer(w, 200, api.PatrolReport{At: f.now, Millis: 7, Agents: []api.PatrolAgent{
			{Agent: "alice", Workspace: "project", Status: api.StatusRunning, Task: "alice.3", QuietSeconds: 1200, UnchangedSeconds: 7300},
			{Agent: "bob", Workspace: "project", Status: api.StatusIdle},
			{Agent: "carol", Workspace: "project", Status: api.StatusRunning, Error: "no answer\x1b[2J"},
			{Agent: "dave", Workspace: "project", Status: api.StatusRunning, QuietSeconds: 1200, UnchangedSeconds: 1200, Waits: `a lease on "src/a"`}},
			Findings: []api.PatrolFinding{{Class: api.PatrolStalled, Agent: "alice", Workspace: "project", Task: "alice.3", Since: f.now.Add(-20 * time.Minute),
				Evidence: []string{"no output for 20m0s"}, Action: api.OnStallNudge, Skipped: "it takes no input", Next: "polisctl agents watch alice"}}})
	})
	mux.HandleFunc("POST /v1/patrol", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.PatrolRequest](f, r)
		answer(w, 200, api.PatrolReport{At: f.now, Millis: 3, DryRun: req.DryRun, Agents: []api.PatrolAgent{}, Findings: []api.PatrolFinding{}})
	})
}
