package server

import (
	"net/http"
	"strconv"

	"polis/daemon/api"
)

// policyRequest reads the query of both routes about what an agent used.
func policyRequest(r *http.Request) (api.PolicyRequest, error) {
	q := r.URL.Query()
	req := api.PolicyRequest{Agent: q.Get("agent"), Workspace: q.Get("workspace"), Role: q.Get("role")}
	if err := api.CheckName(req.Agent); err != nil {
		return req, api.Errorf(api.CodeBadRequest, "agent: %w", err)
	}
	if text := q.Get("run"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < -1 {
			return req, api.Errorf(api.CodeBadRequest, "run is not the number of a run, -1 or 0: %q", api.Shorten(text, 32))
		}
		req.Run = n
	}
	return req, nil
}

func (s *Server) learnPolicy(w http.ResponseWriter, r *http.Request) error {
	req, err := policyRequest(r)
	if err != nil {
		return err
	}
	if req.Role == "" {
		req.Role = req.Agent
	}
	if err := api.CheckName(req.Role); err != nil {
		return api.Errorf(api.CodeBadRequest, "role: %w", err)
	}
	res, err := s.Backend.LearnPolicy(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) checkPolicy(w http.ResponseWriter, r *http.Request) error {
	req, err := policyRequest(r)
	if err != nil {
		return err
	}
	res, err := s.Backend.CheckPolicy(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
