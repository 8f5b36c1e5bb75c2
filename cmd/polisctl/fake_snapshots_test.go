package main

import (
	"net/http"
	"strings"

	"polis/daemon/api"
)

// snapshotRoutes answer about snapshots: s1 is intact, s2 is damaged.
func (f *fake) snapshotRoutes(mux *http.ServeMux) {
	one := api.Snapshot{ID: "s1", Workspace: "project", Agent: "claude", Time: f.now, Why: api.SnapshotByUser, Note: "evil\x1b[2J", Covers: api.SnapshotFiles,
		Hash: strings.Repeat("ab", 32), Metadata: strings.Repeat("cd", 32), Commit: "0123456789abcdef", Files: 2, Links: 1, Dirs: 1, Bytes: 4096, LeftOut: 3}
	mux.HandleFunc("POST /v1/agents/{name}/snapshots", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		req := take[api.SnapshotRequest](f, r)
		s := one
		s.Agent, s.Covers, s.Note = g.Name, req.Covers, req.Note
		answer(w, 201, s)
	}))
	mux.HandleFunc("GET /v1/agents/{name}/timeline", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		take[struct{}](f, r)
		all := []api.Snapshot{}
		if g.Name != "gemini" {
			at := func(id, why string, n int, more api.Snapshot) api.Snapshot {
				more.ID, more.Agent, more.Time, more.Why, more.ChangedCount = id, g.Name, f.now, why, n
				return more
			}
			all = append(all, at("s1", api.SnapshotByTask, 0, api.Snapshot{Task: 3, Note: "fix it", Whole: "it is the first checkpoint"}),
				at("s3", api.SnapshotByTime, 5, api.Snapshot{Changed: []string{"a\x1b[2J", "b", "c", "d"}}), at("s4", api.SnapshotByRestore, 0, api.Snapshot{}),
				at("s6", api.SnapshotByMerge, 0, api.Snapshot{For: "12"}), at("s7", api.SnapshotByTool, 0, api.Snapshot{For: "Bash\x1b[2J", Note: "make"}), at("s8", api.SnapshotByRebase, 0, api.Snapshot{}),
				at("s9", api.SnapshotByAgent, 0, api.Snapshot{}), at("s10", api.SnapshotByRestore, 0, api.Snapshot{ByAgent: true}))
		}
		answer(w, 200, map[string]any{"checkpoints": all})
	}))
	mux.HandleFunc("GET /v1/agents/{name}/timeline/diff", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		d := api.SnapshotDiff{From: r.URL.Query().Get("from"), To: r.URL.Query().Get("to")}
		switch {
		case d.From == "never":
			refuse(w, api.Errorf(api.CodeNotFound, "agent %s has no checkpoint %q", g.Name, d.From).WithHint("polisctl timeline %s lists the checkpoints", g.Name))
			return
		case d.To == "":
			d.Changes = []api.SnapshotChange{{Path: "evil\x1b[2J", How: "added"}, {Path: "x", How: "modified"}}
		}
		answer(w, 200, d)
	}))
	mux.HandleFunc("POST /v1/agents/{name}/checkpoints", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		req := take[api.CheckpointRequest](f, r)
		answer(w, 200, api.Snapshot{ID: "s5", Agent: g.Name, Note: req.Note, Changed: []string{"x"}, ChangedCount: 1})
	}))
	mux.HandleFunc("POST /v1/agents/{name}/rewind", f.with(func(w http.ResponseWriter, r *http.Request, g api.Agent) {
		req := take[api.RewindRequest](f, r)
		res := api.SnapshotRestored{ID: "s1", Agent: g.Name, Before: "s9", Changed: 2, Paths: []string{"x", "y"}}
		if req.DryRun {
			res.Before = ""
		}
		if req.Branch {
			res.Refs = []api.RefMoved{{Ref: "HEAD", From: strings.Repeat("ab", 20), To: "ref: refs/heads/agent/evil\x1b[2J"}, {Ref: "refs/heads/agent/claude", From: strings.Repeat("cd", 20), To: strings.Repeat("ef", 20)}}
		}
		if req.To == "never" {
			refuse(w, api.Errorf(api.CodeNotFound, "agent %s has no checkpoint %q", g.Name, req.To).WithHint("polisctl timeline %s lists the checkpoints", g.Name))
			return
		}
		answer(w, 200, res)
	}))
	mux.HandleFunc("GET /v1/snapshots", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f, r)
		all := []api.Snapshot{}
		if r.URL.Query().Get("agent") != "gemini" {
			all = append(all, one)
		}
		answer(w, 200, map[string]any{"snapshots": all})
	})
	of := func(pattern string, serve func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if id := r.PathValue("id"); id != "s1" && id != "s2" {
				refuse(w, api.Errorf(api.CodeNotFound, "there is no snapshot %q", id).WithHint("polisctl snapshot list"))
				return
			}
			serve(w, r)
		})
	}
	of("GET /v1/snapshots/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, one) })
	file := api.SnapshotFile{Path: "a\x1b[2J", Kind: "file", Mode: "0644", Hash: strings.Repeat("ef", 32), Size: 7}
	of("GET /v1/snapshots/{id}/files", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"files": []api.SnapshotFile{file, {Path: "d", Kind: "directory", Mode: "0755"}}})
	})
	of("GET /v1/snapshots/{id}/content", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte("content of " + r.URL.Query().Get("path") + "\n"))
	})
	of("GET /v1/snapshots/{id}/diff", func(w http.ResponseWriter, r *http.Request) {
		d := api.SnapshotDiff{From: r.PathValue("id"), To: r.URL.Query().Get("to"), Changes: []api.SnapshotChange{}}
		if d.To == "" {
			d.Changes = []api.SnapshotChange{{Path: "new", How: "added"}, {Path: "old", How: "removed"}, {Path: "x", How: "modified"}, {Path: "y", How: "mode"}, {Path: "z", How: "type"}}
		}
		answer(w, 200, d)
	})
	of("GET /v1/snapshots/{id}/verify", func(w http.ResponseWriter, r *http.Request) {
		v := api.SnapshotCheck{ID: r.PathValue("id"), Objects: 2, Bytes: 4096, Intact: true}
		if v.ID == "s2" {
			v.Intact, v.Damaged = false, []string{"x: the stored content does not match its hash"}
		}
		switch q := r.URL.Query(); {
		case q.Get("worktree") == "true":
			v.Against = "claude"
		case q.Get("against") != "":
			v.Against, v.Changed = q.Get("against"), 102
			v.Changes = []api.SnapshotChange{{Path: "evil\x1b[2J", How: "modified"}, {Path: "gone", How: "removed"}}
		}
		answer(w, 200, v)
	})
	of("POST /v1/snapshots/{id}/mount", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.SnapshotMountRequest](f, r)
		switch {
		case req.Inside:
			req.At = "/run/polis/snapshots/s1"
		case req.At == "":
			req.At = "/run/polis/agents/claude/snapshots/s1"
		}
		answer(w, 200, api.SnapshotMount{ID: r.PathValue("id"), Agent: "claude", At: req.At, Inside: req.Inside})
	})
	of("DELETE /v1/snapshots/{id}/mount", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, api.SnapshotMount{ID: r.PathValue("id"), Agent: "claude", At: "/mnt/before", Inside: r.URL.Query().Get("inside") == "true"})
	})
	of("POST /v1/snapshots/{id}/restore", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.SnapshotRestoreRequest](f, r)
		res := api.SnapshotRestored{ID: "s1", Agent: "claude", Before: "s9", Changed: 102, Paths: []string{"x"}}
		if req.DryRun {
			res.Before = ""
		}
		if len(req.Paths) == 1 && req.Paths[0] == "same" {
			res = api.SnapshotRestored{ID: "s1", Agent: "claude"}
		}
		answer(w, 200, res)
	})
	of("DELETE /v1/snapshots/{id}", func(w http.ResponseWriter, r *http.Request) {
		take[struct{}](f, r)
		s := one
		s.ID = r.PathValue("id")
		answer(w, 200, s)
	})
}
