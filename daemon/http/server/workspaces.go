package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) down(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Down(r.Context(), r.PathValue("name"), api.DownRequest{Force: flag(r, "force"), Ignored: flag(r, "ignored")})
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) move(w http.ResponseWriter, r *http.Request) error {
	var req api.MoveRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.MoveWorkspace(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
