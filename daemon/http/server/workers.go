package server

import (
	"net/http"

	"polis/daemon/api"
)

func (s *Server) workers(w http.ResponseWriter, r *http.Request) error {
	all, err := s.Backend.Workers(r.Context(), "", r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"workers": all})
}

func (s *Server) delegate(w http.ResponseWriter, r *http.Request) error {
	var req api.DelegateRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Delegate(r.Context(), "", req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, res)
}

func (s *Server) worker(w http.ResponseWriter, r *http.Request) error {
	wait, err := number(r, "wait", 0, maxTaskWait)
	if err != nil {
		return err
	}
	res, err := s.oneWorker(r, "", r.PathValue("id"), wait)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) oneWorker(r *http.Request, parent, id string, seconds int) (api.Worker, error) {
	ctx := r.Context()
	if seconds > 0 {
		bounded, cancel := s.waiting(r, seconds)
		defer cancel()
		ctx = bounded
	}
	return s.Backend.Worker(ctx, parent, id, seconds > 0)
}

func (s *Server) cancelWorker(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.CancelWorker(r.Context(), "", r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) cleanupWorkers(w http.ResponseWriter, r *http.Request) error {
	var req api.CleanupRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	res, err := s.Backend.CleanupWorkers(r.Context(), "", req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// agentWorkers is for shims: what their agent wants of its own workers.
func (s *Server) agentWorkers(w http.ResponseWriter, r *http.Request) error {
	var req api.WorkersRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.ofAgent(r, r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) ofAgent(r *http.Request, name string, req api.WorkersRequest) (api.WorkersResponse, error) {
	if req.WaitSeconds < 0 || req.WaitSeconds > maxTaskWait {
		return api.WorkersResponse{}, api.Errorf(api.CodeBadRequest, "wait_seconds = %d: must be from 0 to %d", req.WaitSeconds, maxTaskWait)
	}
	one := func(w api.Worker, err error) (api.WorkersResponse, error) {
		return api.WorkersResponse{Workers: []api.Worker{w}}, err
	}
	switch req.Op {
	case api.WorkersDelegate:
		if req.Delegate == nil {
			return api.WorkersResponse{}, api.Errorf(api.CodeBadRequest, "delegate is missing")
		}
		return one(s.Backend.Delegate(r.Context(), name, *req.Delegate))
	case api.WorkersList:
		all, err := s.Backend.Workers(r.Context(), name, "")
		return api.WorkersResponse{Workers: all}, err
	case api.WorkersGet:
		return one(s.oneWorker(r, name, req.ID, req.WaitSeconds))
	case api.WorkersCancel:
		return one(s.Backend.CancelWorker(r.Context(), name, req.ID))
	case api.WorkersCleanup:
		res, err := s.Backend.CleanupWorkers(r.Context(), name, api.CleanupRequest{})
		return api.WorkersResponse{Cleanup: &res}, err
	}
	return api.WorkersResponse{}, api.Errorf(api.CodeBadRequest, "op = %q: must be delegate, list, get, cancel or cleanup", api.Shorten(req.Op, 32))
}
