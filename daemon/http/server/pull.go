package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) pull(w http.ResponseWriter, r *http.Request) error {
	var req api.PullRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	uid, err := callerUID(r)
	if err != nil {
		return err
	}
	res, err := s.Backend.Pull(r.Context(), uid, r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
