package main

import (
	"net/http"
	"strings"
	"time"

	"polis/daemon/api"
)

// authorshipRoutes answer who wrote and read files: one agent, one person, and one line in no commit.
func (f *fake) authorshipRoutes(mux *http.ServeMux) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mine := api.BlameCommit{ID: strings.Repeat("ab", 20), Author: "Ann", Time: at, Summary: "evil\x1b[2J", Agent: "claude", Tasks: []string{"claude.3"}}
	mux.HandleFunc("GET /v1/who", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		out := api.Who{Workspace: "project", Path: q.Get("path"), Uses: []api.WhoUse{}, Notes: []string{"reads are recorded with audit = \"full\" only, and are not of gemini now"}}
		switch {
		case q.Get("op") == "wrote":
			out.Uses = []api.WhoUse{
				{Source: api.UseCommit, Agent: "claude", Commit: &mine, Open: api.Open{Time: at, Op: "commit", Write: true, Path: out.Path, Task: "claude.3"}},
				{Source: api.UseOpen, Agent: "claude", Open: api.Open{Time: at, Op: "rename", Write: true, Path: "x", To: out.Path, PID: 7, Program: "/bin/mv", Command: "mv x\x1b[2J", Count: 2}},
				{Source: api.UseCheckpoint, Agent: "gemini", Checkpoint: &api.WhoCheckpoint{ID: "c0ffee", After: &at}, Open: api.Open{Time: at, Op: "changed", Write: true, Path: out.Path}},
				{Source: api.UseFiles, Agent: "gemini", Open: api.Open{Time: at, Op: "differs", Write: true, Path: out.Path}},
			}
			if q.Get("line") != "" {
				out.Line = &api.BlameLine{Line: 4, Commit: mine.ID, Text: "x := 1" + q.Get("checkpoint")}
			}
		case q.Get("agent") == "claude":
			out.Uses = []api.WhoUse{{Source: api.UseOpen, Agent: "claude", Open: api.Open{Time: at, Op: "open", Path: out.Path, PID: 7, Program: "/bin/cat", Command: "cat x"}}}
		}
		answer(w, 200, out)
	})
	mux.HandleFunc("GET /v1/blame", func(w http.ResponseWriter, r *http.Request) {
		other := api.BlameCommit{ID: strings.Repeat("cd", 20), Author: "Bob", Time: at}
		answer(w, 200, api.Blame{Workspace: "project", Agent: r.URL.Query().Get("agent"), Path: r.URL.Query().Get("path"), Head: mine.ID, Commits: map[string]api.BlameCommit{mine.ID: mine, other.ID: other},
			Lines: []api.BlameLine{{Line: 1, Commit: mine.ID, Text: "one"}, {Line: 2, Commit: other.ID, Text: "two\x1b[2J"}, {Line: 3, Text: "\tthree"}}})
	})
}
