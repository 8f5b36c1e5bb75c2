package server

import (
	"net/http"
	"strings"

	"polis/daemon/api"
)

func (s *Server) setups(w http.ResponseWriter, r *http.Request) error {
	all, err := s.Backend.Setups(r.Context(), r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"setups": all})
}

func (s *Server) runSetup(w http.ResponseWriter, r *http.Request) error {
	var req api.SetupRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "application/x-ndjson") {
		return s.progress(w, func(say func(string)) (any, error) { return s.Backend.RunSetup(r.Context(), req, say) })
	}
	res, err := s.Backend.RunSetup(r.Context(), req, func(string) {})
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) setupLog(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.SetupLog(r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
