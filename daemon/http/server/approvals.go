package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) approvals(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Approvals(r.Context(), r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"approvals": res})
}

func (s *Server) approval(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Approval(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) error {
	var req api.AnswerRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.AnswerApproval(r.Context(), caller(r), r.PathValue("id"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) approvalRules(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.ApprovalRules(r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"rules": res})
}

func (s *Server) revokeApproval(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.RevokeApproval(r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
