package server

import (
	"io"
	"net/http"

	"polis/daemon/api"
)

// optional reads a body that may be left out.
func optional(r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return read(r, into)
}

func (s *Server) revert(w http.ResponseWriter, r *http.Request) error {
	var req api.RevertRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Revert(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) fork(w http.ResponseWriter, r *http.Request) error {
	var req api.ForkRequest
	if err := read(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Fork(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, res)
}

func (s *Server) restore(w http.ResponseWriter, r *http.Request) error {
	var req api.RestoreRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	a, err := s.Backend.RestoreAgent(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, a)
}

func (s *Server) commit(w http.ResponseWriter, r *http.Request) error {
	var req api.CommitRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Commit(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) rebase(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Rebase(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// diff streams a patch. What goes wrong before the first byte is an error as
// elsewhere; after it the stream is cut, which a client sees.
func (s *Server) diff(w http.ResponseWriter, r *http.Request) error {
	opt := api.DiffRequest{Stat: flag(r, "stat"), NameOnly: flag(r, "names"), Committed: flag(r, "committed")}
	return s.sendDiff(w, r.PathValue("name"), func(out io.Writer) error { return s.Backend.Diff(r.Context(), r.PathValue("name"), opt, out) })
}

func (s *Server) sendDiff(w http.ResponseWriter, of string, diff func(io.Writer) error) error {
	out := &patch{w: w}
	err := diff(out)
	switch {
	case err != nil && out.begun:
		s.Log.Warn("diff cut short", "op", of, "err", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	}
	out.begin()
	return nil
}

type patch struct {
	w     http.ResponseWriter
	begun bool
}

func (p *patch) begin() {
	if !p.begun {
		p.begun = true
		p.w.Header().Set("Content-Type", "text/x-diff")
		p.w.WriteHeader(http.StatusOK)
	}
}

func (p *patch) Write(b []byte) (int, error) {
	p.begin()
	return p.w.Write(b)
}

func (s *Server) queues(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Queues(r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"queues": res})
}

func (s *Server) enqueue(w http.ResponseWriter, r *http.Request) error {
	var req api.QueueRequest
	if err := read(r, &req); err != nil {
		return err
	}
	e, err := s.Backend.Enqueue(req.Agent, req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, e)
}

func (s *Server) prioritize(w http.ResponseWriter, r *http.Request) error {
	var req api.QueueRequest
	if err := read(r, &req); err != nil {
		return err
	}
	if err := s.Backend.Prioritize(r.Context(), r.PathValue("agent"), req.Priority); err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, struct{}{})
}

func (s *Server) dequeue(w http.ResponseWriter, r *http.Request) error {
	if err := s.Backend.Dequeue(r.Context(), r.PathValue("agent")); err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, struct{}{})
}

func (s *Server) gc(w http.ResponseWriter, r *http.Request) error {
	var req api.GCRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.GC(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) rework(w http.ResponseWriter, r *http.Request) error {
	var req api.ReworkRequest
	if r.ContentLength != 0 {
		if err := read(r, &req); err != nil {
			return err
		}
	}
	res, err := s.Backend.Rework(r.Context(), r.PathValue("agent"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
