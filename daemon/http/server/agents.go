package server

import (
	"net/http"
	"strings"

	"polis/daemon/api"
)

func (s *Server) agents(w http.ResponseWriter, r *http.Request) error {
	ws, err := s.workspace(r)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"agents": s.Backend.List(r.Context(), ws)})
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) error {
	var req api.AddRequest
	if err := read(r, &req); err != nil {
		return err
	}
	if strings.Contains(r.Header.Get("Accept"), "application/x-ndjson") {
		return s.progress(w, func(say func(string)) (any, error) {
			say("adding agent " + api.Shorten(req.Name, 64))
			return s.Backend.Add(r.Context(), req)
		})
	}
	a, err := s.Backend.Add(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, a)
}

func (s *Server) agent(w http.ResponseWriter, r *http.Request) error {
	a, err := s.Backend.Get(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, a)
}

func (s *Server) set(w http.ResponseWriter, r *http.Request) error {
	var req api.SetRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Set(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Remove(r.Context(), r.PathValue("name"), flag(r, "force"), flag(r, "ignored"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) error {
	start := s.Backend.Start
	if flag(r, "idle") {
		start = s.Backend.BringUp
	}
	a, err := start(r.Context(), r.PathValue("name"), flag(r, "force"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, a)
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request) error {
	a, err := s.Backend.Stop(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, a)
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	var req api.RunRequest
	if err := read(r, &req); err != nil {
		return err
	}
	t, err := s.Backend.Run(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, t)
}

func (s *Server) merge(w http.ResponseWriter, r *http.Request) error {
	var req api.MergeRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	res, err := s.Backend.Merge(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) discard(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Discard(r.Context(), r.PathValue("name"), flag(r, "ignored"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) leftovers(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Leftovers(r.Context(), r.PathValue("name"), r.Method == http.MethodDelete)
	if err != nil {
		return err
	}
	if res.Leftovers == nil {
		res.Leftovers = []api.Leftover{}
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Why(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	if res.Why == nil {
		res.Why = []api.WhyEntry{}
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) policy(w http.ResponseWriter, r *http.Request) error {
	p, err := s.Backend.Policy(r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, p)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) error {
	a, err := s.Backend.Attach(r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, a)
}
