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

func (s *Server) cases(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Cases(r.URL.Query().Get("workspace"), flag(r, "all"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"cases": res})
}

func (s *Server) patrolCase(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Case(r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) resolveCase(w http.ResponseWriter, r *http.Request) error {
	var req api.ResolveRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	res, err := s.Backend.ResolveCase(caller(r), r.PathValue("id"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) thaw(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Thaw(r.Context(), caller(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
