package shim

import (
	"net/http"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// handleChanges makes a cut of the set of changed paths, or adds what polisd changes.
func (s *Shim) handleChanges(w http.ResponseWriter, r *http.Request) error {
	var req wire.ChangesRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Lose != "" || len(req.Add) > 0 {
		if req.Lose != "" {
			s.changes.Lose(api.Shorten(req.Lose, 200))
			s.announceUnknown()
		}
		for _, p := range req.Add {
			s.changes.Add(string(p), true)
			s.announce(string(p))
		}
		return writeJSON(w, wire.Changes{})
	}
	cut := s.changes.Take(req.Since)
	out := wire.Changes{Cut: cut.ID, Whole: cut.Whole}
	for _, p := range cut.Paths {
		if p.Tree {
			out.Trees = append(out.Trees, []byte(p.Name))
		} else {
			out.Paths = append(out.Paths, []byte(p.Name))
		}
	}
	return writeJSON(w, out)
}
