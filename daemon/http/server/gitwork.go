package server

import (
	"net/http"
	"strings"

	"polis/daemon/api"
)

func (s *Server) maintenance(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Maintenance(r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"maintenance": res})
}

func (s *Server) maintain(w http.ResponseWriter, r *http.Request) error {
	var req api.MaintenanceRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "application/x-ndjson") {
		return s.progress(w, func(say func(string)) (any, error) { return s.Backend.Maintain(r.Context(), req, say) })
	}
	res, err := s.Backend.Maintain(r.Context(), req, func(string) {})
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// remote is for shims: what the git of their agent wants of a remote.
func (s *Server) remote(w http.ResponseWriter, r *http.Request) error {
	var req api.RemoteRequest
	if err := read(r, &req); err != nil {
		return err
	}
	name, approved := r.PathValue("name"), r.Header.Get(api.RemoteApproved)
	// Before anything is streamed, so that the shim can ask.
	if q, err := s.Backend.RemoteQuestion(r.Context(), name, req); err != nil {
		return err
	} else if q != nil && q.Key != approved {
		return api.Errorf(api.CodeNotApproved, "%s needs an approval", q.Text).With("question", q).WithHint("polisctl approvals list")
	}
	if strings.Contains(r.Header.Get("Accept"), "application/x-ndjson") {
		return s.progress(w, func(say func(string)) (any, error) { return s.Backend.Remote(r.Context(), name, req, approved, say) })
	}
	res, err := s.Backend.Remote(r.Context(), name, req, approved, func(string) {})
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
