package server

import (
	"io"
	"net/http"
	"strconv"

	"polis/daemon/api"
)

// maxChecks bounds the number of a check that a caller names.
const maxChecks = 1_000_000

func ofCheck() []query {
	return []query{{"check", "integer", "the number of the check, from 1, which is the last one and the default"}, {"id", "string", "the request to merge, instead of the number"},
		{"workspace", "string", "the workspace of an agent that was removed"}}
}

func readCheckRequest(r *http.Request) (api.CheckLogRequest, error) {
	q := r.URL.Query()
	req := api.CheckLogRequest{Agent: r.PathValue("agent"), Workspace: q.Get("workspace"), ID: q.Get("id")}
	for _, n := range []struct {
		name string
		most int
		to   *int
	}{{"check", maxChecks, &req.Check}, {"lines", api.MaxCheckLines, &req.Lines}} {
		text := q.Get(n.name)
		if text == "" {
			continue
		}
		v, err := strconv.Atoi(text)
		if err != nil || v < 1 || v > n.most {
			return req, api.Errorf(api.CodeBadRequest, "%s = %q: must be a whole number from 1 to %d", n.name, api.Shorten(text, 32), n.most)
		}
		*n.to = v
	}
	if req.ID != "" && req.Check != 0 {
		return req, api.Errorf(api.CodeBadRequest, "check = %d: id = %q selects a check already", req.Check, api.Shorten(req.ID, 64))
	}
	return req, nil
}

func (s *Server) checkLog(w http.ResponseWriter, r *http.Request) error {
	req, err := readCheckRequest(r)
	if err != nil {
		return err
	}
	res, err := s.Backend.CheckLog(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// checkOutput sends the output as far as it was written when the request came.
func (s *Server) checkOutput(w http.ResponseWriter, r *http.Request) error {
	req, err := readCheckRequest(r)
	if err != nil {
		return err
	}
	body, size, err := s.Backend.CheckOutput(r.Context(), req)
	if err != nil {
		return err
	}
	defer body.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if _, err := io.CopyN(w, body, size); err != nil {
		s.Log.Debug("output of a check not sent", "op", req.Agent, "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}
