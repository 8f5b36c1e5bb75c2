package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) send(w http.ResponseWriter, r *http.Request) error {
	var req api.SendRequest
	if err := read(r, &req); err != nil {
		return err
	}
	t, err := s.Backend.Send(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, t)
}

func (s *Server) broadcast(w http.ResponseWriter, r *http.Request) error {
	var req api.BroadcastRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Broadcast(r.Context(), caller(r), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) say(w http.ResponseWriter, r *http.Request) error {
	var req api.SayRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Say(r.Context(), caller(r), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) said(w http.ResponseWriter, r *http.Request) error {
	var req api.SaidRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Said(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
