package server

import (
	"net/http"
	"strconv"
	"time"

	"polis/daemon/api"
)

func (s *Server) who(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	req := api.WhoRequest{Workspace: q.Get("workspace"), Agent: q.Get("agent"), Path: q.Get("path"), Checkpoint: q.Get("checkpoint")}
	switch q.Get("op") {
	case "wrote":
		req.Write = true
	case "read":
	default:
		return api.Errorf(api.CodeBadRequest, "op must be \"read\" or \"wrote\", not %q", api.Shorten(q.Get("op"), 32))
	}
	var err error
	if text := q.Get("since"); text != "" {
		if req.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return api.Errorf(api.CodeBadRequest, "since is not a time as in RFC 3339: %q", api.Shorten(text, 64))
		}
	}
	for key, n := range map[string]*int{"limit": &req.Limit, "line": &req.Line} {
		if text := q.Get(key); text != "" {
			if *n, err = strconv.Atoi(text); err != nil || *n < 1 {
				return api.Errorf(api.CodeBadRequest, "%s is not a number above 0: %q", key, api.Shorten(text, 32))
			}
		}
	}
	res, err := s.Backend.Who(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) blame(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	res, err := s.Backend.Blame(r.Context(), q.Get("workspace"), q.Get("agent"), q.Get("path"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
