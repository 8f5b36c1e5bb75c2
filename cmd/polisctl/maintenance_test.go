package main

import (
	"encoding/json"
	"net/http"

	"polis/daemon/api"
)

// maintenanceRoutes answers with one repository that was maintained and one
// that never was.
func (f *fake) maintenanceRoutes(mux *http.ServeMux) {
	done := api.MaintenanceReport{Workspace: "project", StartedAt: f.now, Before: api.RepositorySize{LooseObjects: 300, LooseBytes: 2048, Packs: 4, PackBytes: 4096},
		After: api.RepositorySize{LooseObjects: 3, PackedObjects: 500, Packs: 1, PackBytes: 3072}, Removed: 2, LockedMillis: 40, Steps: []api.MaintenanceStep{}, Next: f.now.AddDate(0, 0, 1)}
	mux.HandleFunc("GET /v1/maintenance", func(w http.ResponseWriter, r *http.Request) {
		take[any](f, r)
		all := []api.MaintenanceReport{done, {Workspace: "other", Steps: []api.MaintenanceStep{}}}
		if ws := r.URL.Query().Get("workspace"); ws != "" {
			all = []api.MaintenanceReport{{Workspace: ws, StartedAt: f.now, Error: "evil\x1b[2J"}}
		}
		answer(w, 200, map[string]any{"maintenance": all})
	})
	mux.HandleFunc("POST /v1/maintenance", func(w http.ResponseWriter, r *http.Request) {
		req := take[api.MaintenanceRequest](f, r)
		if req.Workspace == "busy" {
			refuse(w, api.Errorf(api.CodeExclusiveLockTimeout, "maintenance needs the whole repository").WithHint("try again in a moment"))
			return
		}
		rep := done
		if rep.DryRun = req.DryRun; req.DryRun {
			rep.Unused = 7
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		enc := json.NewEncoder(w)
		for _, line := range []map[string]any{{"progress": "pack loose objects"}, {"result": rep}} {
			if enc.Encode(line) != nil {
				return
			}
		}
	})
}
