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
				Evidence: []string{"no output for 20m0s"}, Action: api.OnStallNudge, Skipped: "it takes no input", Next: "polisctl agents watch alice"}},
			Cleanups: []api.Cleanup{
				{Agent: "erin", Workspace: "project", Task: "erin.1", Why: "its task erin.1 is over (merged)", Measured: api.CleanupUncommitted, Status: api.CleanupUncommitted,
					Evidence: []string{"2 files in no commit"}, Action: api.CleanupKeep, At: f.now, Next: "polisctl agents diff erin"},
				{Agent: "frank", Workspace: "project", Task: "frank.1", Why: "its task frank.1 is over (merged)", Measured: api.CleanupClean, Status: api.CleanupClean,
					Evidence: []string{"everything is in main"}, Action: api.CleanupRemove, Done: true, At: f.now},
				{Agent: "gina", Workspace: "project", Why: "its sandbox has failed", Measured: api.CleanupClean, Status: api.CleanupClean,
					Evidence: []string{"everything is in main"}, Action: api.CleanupRemove, Skipped: "it is busy", At: f.now}}})
	})
	mux.HandleFunc("POST /v1/patrol", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.PatrolRequest](f, r)
		agents := []api.PatrolAgent{}
		if req.DryRun {
			agents = append(agents, api.PatrolAgent{Agent: "hank", Workspace: "project", Status: api.StatusError, Reason: "OOM_KILLED: \x1b[2J"})
		}
		answer(w, 200, api.PatrolReport{At: f.now, Millis: 3, DryRun: req.DryRun, Agents: agents, Findings: []api.PatrolFinding{}})
	})
	cases := []api.Case{
		{ID: "case-2", State: api.CaseResolved, Kind: "stalled", Workspace: "project", Agent: "bob", Evidence: []string{}, Opened: f.now.Add(-time.Hour), Resolution: &api.CaseResolution{At: f.now, How: "it has done something since"}},
		{ID: "case-3", State: api.CasePending, Kind: "breaker", Workspace: "project", Agent: "alice", Opened: f.now.Add(-15 * time.Minute), Seen: 1,
			Evidence: []string{"41 deletions in 12s", "rm\x1b[2J"}, Resolves: "it is thawed", Next: "polisctl agents thaw alice"}}
	mux.HandleFunc("GET /v1/patrol/cases", func(w http.ResponseWriter, r *http.Request) {
		take[any](f, r)
		if r.URL.Query().Get("all") == "1" {
			answer(w, 200, map[string]any{"cases": cases})
			return
		}
		answer(w, 200, map[string]any{"cases": cases[1:]})
	})
	mux.HandleFunc("GET /v1/patrol/cases/{id}", func(w http.ResponseWriter, r *http.Request) {
		take[any](f, r)
		if r.PathValue("id") != "case-3" {
			refuse(w, api.Errorf(api.CodeNotFound, "there is no case").WithHint("polisctl patrol cases --all lists them"))
			return
		}
		answer(w, 200, cases[1])
	})
	mux.HandleFunc("POST /v1/patrol/cases/case-3/resolve", func(w http.ResponseWriter, r *http.Request) {
		take[api.ResolveRequest](f, r)
		answer(w, 200, cases[1])
	})
}
