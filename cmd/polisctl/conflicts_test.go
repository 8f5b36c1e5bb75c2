package main

import (
	"net/http"

	"polis/daemon/api"
)

// conflicts answers with what two agents that change one file see.
func (f *fake) conflicts(w http.ResponseWriter, r *http.Request) {
	take[any](f, r)
	all := []api.Conflicts{}
	if ws := r.URL.Query().Get("workspace"); ws == "" || ws == "project" {
		all = append(all, api.Conflicts{
			Workspace: "project", Target: "main", Tried: 3, PathsTotal: 5, Errors: []string{"the worktree of gemini is odd"},
			Branches: []api.ConflictBranch{{Agent: "claude", Branch: "agent/claude", Committed: 4}, {Agent: "gemini", Branch: "agent/gemini", Truncated: true}},
			Merges: []api.ConflictMerge{
				{Agents: []string{"claude", "gemini"}, Branches: []string{"agent/claude", "agent/gemini"}, Paths: []string{"a", "b", "c", "evil\x1b[2J"}, Total: 4, Since: f.now},
				{Agents: []string{"gemini"}, Branches: []string{"agent/gemini", "main"}, Since: f.now, Error: "no commit in common"},
			},
			Paths: []api.ConflictPath{{Path: "a", ChangedBy: []api.ConflictChange{{Agent: "claude", Committed: true}, {Agent: "gemini", Uncommitted: true}},
				LeasedBy: []string{"gemini"}, AwaitedBy: []string{"claude"}}},
		})
	}
	answer(w, 200, map[string]any{"conflicts": all})
}
