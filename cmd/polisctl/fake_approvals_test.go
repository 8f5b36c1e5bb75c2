package main

import (
	"net/http"
	"strings"
	"time"

	"polis/daemon/api"
)

// approvalRoutes answer with what two agents ask.
func (f *fake) approvalRoutes(mux *http.ServeMux) {
	all := func() []api.Approval {
		return []api.Approval{
			{ID: "claude.aaaaaaaa", Agent: "claude", Workspace: "project", Role: "worker", Task: "claude.3", Kind: api.ApprovalTool, Tool: "Bash", Class: api.ToolShell,
				What: "make " + strings.Repeat("x", 100), WhatHidden: 7, Detail: `{"command":"make"}`, DetailHidden: 9, PID: 42, Program: `sh\x1b[2K`, Callers: 2,
				Since: f.now.Add(-time.Minute), Deadline: f.now.Add(time.Hour), Remember: "Bash(make)"},
			{ID: "gemini.bbbbbbbb", Agent: "gemini", Workspace: "project", Kind: api.ApprovalWrite, What: "a\x1b[2Jb", Callers: 1, Since: f.now, Deadline: f.now.Add(time.Hour)},
		}
	}
	find := func(w http.ResponseWriter, r *http.Request) (api.Approval, bool) {
		for _, v := range all() {
			if v.ID == r.PathValue("id") {
				return v, true
			}
		}
		refuse(w, api.Errorf(api.CodeNotFound, "there is no question %s", r.PathValue("id")).WithHint("polisctl approvals list"))
		return api.Approval{}, false
	}
	mux.HandleFunc("GET /v1/approvals", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]any{"approvals": all()}) })
	mux.HandleFunc("GET /v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		if v, ok := find(w, r); ok {
			if v.Agent == "claude" {
				v.Diff, v.DiffHidden = []string{"--- a/x", "+++ b/x", "@@ -1 +1 @@", `-a\x1b[2J`, "+b\x1b[2J"}, 3
			}
			answer(w, 200, v)
		}
	})
	mux.HandleFunc("POST /v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.AnswerRequest](f, r)
		v, ok := find(w, r)
		if !ok {
			return
		}
		if v.Agent == "gemini" {
			refuse(w, api.Errorf(api.CodeAlreadyAnswered, "question %s was answered by user:7: deny", v.ID).WithHint("the first answer counts"))
			return
		}
		v.Answer = &api.Answer{Verdict: req.Verdict, Scope: req.Scope, By: "user:0", Reason: req.Reason, Raise: req.Raise}
		answer(w, 200, v)
	})
	rules := []api.ApprovalRule{{ID: "claude.cccccccc", Workspace: "project", Role: "worker", Verdict: api.VerdictApprove, Kind: api.ApprovalTool, Tool: "Bash", What: "make", Text: "Bash(make)", By: "user:0", At: f.now}}
	mux.HandleFunc("GET /v1/approval-rules", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]any{"rules": rules}) })
	mux.HandleFunc("DELETE /v1/approval-rules/{id}", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f, r)
		answer(w, 200, rules[0])
	})
}
