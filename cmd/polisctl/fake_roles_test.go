package main

import (
	"net/http"

	"polis/daemon/api"
)

// roleRoutes answer with one role, and what it decides.
func (f *fake) roleRoutes(mux *http.ServeMux) {
	worker := api.Role{Name: "worker", Model: "sonnet", Models: map[string]string{"codex": "gpt-5.5"}, Policy: api.Policy{Write: []string{"src/**"}, Deny: []string{"*.pem"}},
		Tools: api.ToolRules{AutoApprove: []string{"read", "edit"}, AutoDeny: []string{"shell(rm *)"}, Default: api.VerdictAsk}, Env: []string{"KEY"}, Agents: []string{"claude"},
		Remembered: []api.ApprovalRule{{ID: "claude.cccccccc", Verdict: api.VerdictApprove, Text: "Bash(make)", By: "user:0"}}}
	mux.HandleFunc("GET /v1/roles", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"roles": []api.Role{worker}})
	})
	mux.HandleFunc("GET /v1/roles/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") != worker.Name {
			refuse(w, api.Errorf(api.CodeNotFound, "there is no role %q", r.PathValue("name")).WithHint("polisctl roles list"))
			return
		}
		answer(w, 200, worker)
	})
	mux.HandleFunc("GET /v1/roles/{name}/check", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f, r)
		q := r.URL.Query()
		d := api.RoleDecision{Role: "worker", Kind: api.ApprovalTool, Tool: q.Get("tool"), Name: "bash", Class: api.ToolShell, What: q.Get("text"), Verdict: api.VerdictAsk, By: "tools", Rule: "default", Source: "default of the role"}
		switch {
		case q.Get("path") != "":
			d = api.RoleDecision{Role: "worker", Kind: api.ApprovalWrite, What: q.Get("path"), Verdict: api.VerdictDeny, By: "policy", Rule: `deny "*.pem"`, Source: "policy", Reason: "the policy does not allow it"}
		case q.Get("text") == "make":
			d.Verdict, d.Rule, d.Source, d.Then = api.VerdictApprove, "Bash(make)", "answer claude.cccccccc of user:0", "the view asks, too"
		}
		answer(w, 200, d)
	})
}
