package server

import (
	"encoding/json"
	"net/http"

	"polis/daemon/api"
)

func (s *Server) roles(w http.ResponseWriter, _ *http.Request) error {
	return s.reply(w, http.StatusOK, map[string]any{"roles": s.Backend.Roles()})
}

func (s *Server) role(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Role(r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) checkRole(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	req := api.RoleCheck{Role: r.PathValue("name"), Agent: q.Get("agent"), BaseType: q.Get("base_type"), Workspace: q.Get("workspace"),
		Tool: q.Get("tool"), Text: q.Get("text"), Path: q.Get("path"), Write: flag(r, "write")}
	if text := q.Get("input"); text != "" {
		if err := json.Unmarshal([]byte(text), &req.Input); err != nil {
			return api.Errorf(api.CodeBadRequest, "input: must be an object in JSON: %w", err)
		}
	}
	switch {
	case (req.Tool == "") == (req.Path == ""):
		return api.Errorf(api.CodeBadRequest, "give either a tool or a path")
	case req.Input != nil && req.Text != "":
		return api.Errorf(api.CodeBadRequest, "give either text or input")
	case req.Path != "" && (req.Input != nil || req.Text != ""):
		return api.Errorf(api.CodeBadRequest, "text and input are for tools")
	}
	res, err := s.Backend.CheckRole(req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
