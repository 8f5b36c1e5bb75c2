package main

import (
	"net/http"
	"time"

	"polis/daemon/api"
)

// policyRoutes answer about what agents used: gemini was never in record mode.
func (f *fake) policyRoutes(mux *http.ServeMux) {
	runs := []api.RecordedRun{{Run: 3, Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Role: "worker", Paths: 2, Names: 1}}
	none := func(w http.ResponseWriter, r *http.Request) bool {
		take[struct{}](f, r)
		if r.URL.Query().Get("agent") != "gemini" {
			return false
		}
		refuse(w, api.Errorf(api.CodeNotFound, "nothing is recorded of agent gemini in workspace project"))
		return true
	}
	mux.HandleFunc("GET /v1/policy/learn", func(w http.ResponseWriter, r *http.Request) {
		if none(w, r) {
			return
		}
		answer(w, 200, api.LearnedPolicy{Agent: "claude", Workspace: "project", Role: r.URL.Query().Get("role"), Runs: runs, Policy: api.Policy{Read: []string{"/a"}, Write: []string{"/b"}},
			Withheld: []api.PolicyRefusal{}, Incomplete: []string{}, TOML: "# Review it.\n[roles.docs]\nread = [\"/a\"]\nwrite = [\"/b\\u202E\"]\n"})
	})
	mux.HandleFunc("GET /v1/policy/check", func(w http.ResponseWriter, r *http.Request) {
		if none(w, r) {
			return
		}
		v := api.PolicyCheck{Role: r.URL.Query().Get("role"), Agent: "claude", Workspace: "project", Runs: runs, Refused: []api.PolicyRefusal{}, Incomplete: []string{}}
		if v.Role == "narrow" {
			v.Refused = append(v.Refused, api.PolicyRefusal{Path: "evil\x1b[2J", Write: true, Verdict: "deny"}, api.PolicyRefusal{Path: "lib", Tree: true, Verdict: "ask", Rule: `ask "lib"`, Refused: true},
				api.PolicyRefusal{Name: "example.org", Verdict: "deny"})
			v.Incomplete = append(v.Incomplete, "run 3: it ended unexpectedly")
		}
		answer(w, 200, v)
	})
}
