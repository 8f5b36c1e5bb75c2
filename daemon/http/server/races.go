package server

import (
	"context"
	"net/http"

	"polis/daemon/api"
)

func (s *Server) races(w http.ResponseWriter, r *http.Request) error {
	all, err := s.Backend.Races(r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"races": all})
}

func (s *Server) race(w http.ResponseWriter, r *http.Request) error {
	var req api.RaceRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Race(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, res)
}

func (s *Server) getRace(w http.ResponseWriter, r *http.Request) error {
	wait, err := number(r, "wait", 0, maxTaskWait)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = s.waiting(r, wait)
		defer cancel()
	}
	res, err := s.Backend.GetRace(ctx, r.PathValue("id"), wait > 0)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) chooseRace(w http.ResponseWriter, r *http.Request) error {
	var req api.ChooseRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.ChooseRace(r.PathValue("id"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) cancelRace(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.CancelRace(r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
