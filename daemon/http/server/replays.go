package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) replay(w http.ResponseWriter, r *http.Request) error {
	var req api.ReplayRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Replay(r.Context(), r.PathValue("id"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, res)
}

func (s *Server) replayed(w http.ResponseWriter, r *http.Request) error {
	wait, err := number(r, "wait", 0, maxTaskWait)
	if err != nil {
		return err
	}
	ctx, cancel := s.waiting(r, wait)
	defer cancel()
	if wait == 0 {
		ctx = r.Context()
	}
	res, err := s.Backend.Replayed(ctx, r.PathValue("name"), wait > 0)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
