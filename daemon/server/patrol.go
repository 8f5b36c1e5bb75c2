package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) lastPatrol(w http.ResponseWriter, _ *http.Request) error {
	return s.reply(w, http.StatusOK, s.Backend.LastPatrol())
}

func (s *Server) patrol(w http.ResponseWriter, r *http.Request) error {
	var req api.PatrolRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	rep, err := s.Backend.Patrol(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, rep)
}
