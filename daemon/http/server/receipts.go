package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
)

// recordTime bounds how long an answer waits for the receipts of what was done.
const recordTime = 2 * time.Second

// frees reports whether a request only ends or frees something: it is never refused because it cannot
// be recorded, as it may be what makes room.
func frees(pattern string) bool {
	method, path, _ := strings.Cut(pattern, " ")
	if method == http.MethodDelete {
		return true
	}
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "stop", "cancel", "gc", "discard", "maintenance", "cleanup", "thaw", "resolve":
		return true
	}
	return false
}

// recorded serves a request. What changes something is refused if it could not be recorded and must
// be, and is answered when its receipts are durable.
func (s *Server) recorded(rt Route, w http.ResponseWriter, r *http.Request) error {
	if rt.Access == AccessRead || strings.HasPrefix(rt.Pattern, "GET ") {
		return rt.serve(s, w, r)
	}
	if !frees(rt.Pattern) {
		if err := s.Backend.Recordable(); err != nil {
			return err
		}
	}
	return rt.serve(s, &settling{ResponseWriter: w, settle: func() {
		ctx, cancel := context.WithTimeout(r.Context(), recordTime)
		defer cancel()
		s.Backend.Recorded(ctx)
	}}, r)
}

// settling calls settle before the first byte of a successful answer.
type settling struct {
	http.ResponseWriter
	settle func()
	begun  bool
}

func (w *settling) WriteHeader(status int) {
	if !w.begun && status < 300 {
		w.settle()
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *settling) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *settling) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *Server) receipts(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	req := api.ReceiptsRequest{Workspace: q.Get("workspace"), Agent: q.Get("agent"), Type: q.Get("type")}
	var err error
	if text := q.Get("since"); text != "" {
		if req.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return api.Errorf(api.CodeBadRequest, "since is not a time as in RFC 3339: %q", api.Shorten(text, 64))
		}
	}
	if text := q.Get("limit"); text != "" {
		if req.Limit, err = strconv.Atoi(text); err != nil || req.Limit < 1 {
			return api.Errorf(api.CodeBadRequest, "limit is not a number above 0: %q", api.Shorten(text, 32))
		}
	}
	res, err := s.Backend.Receipts(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) verifyReceipts(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.VerifyReceipts(r.Context(), r.URL.Query().Get("workspace"), r.URL.Query().Get("head"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// provenance streams, as exportReceipts does.
func (s *Server) provenance(w http.ResponseWriter, r *http.Request) error {
	entry, err := entryOf(r)
	if err != nil {
		return err
	}
	return s.lines(w, func(to io.Writer) error {
		return s.Backend.Provenance(r.Context(), r.URL.Query().Get("workspace"), entry, to)
	})
}

// exportReceipts streams. If an entry is broken, the answer is cut short, which a client sees.
func (s *Server) exportReceipts(w http.ResponseWriter, r *http.Request) error {
	return s.lines(w, func(to io.Writer) error {
		return s.Backend.ExportReceipts(r.Context(), r.URL.Query().Get("workspace"), to)
	})
}

func (s *Server) lines(w http.ResponseWriter, write func(io.Writer) error) error {
	return s.streamed(w, "application/x-ndjson", "export of receipts", write)
}

// streamed answers with what write writes. An error after the first byte cuts the answer short, and is logged with what it is.
func (s *Server) streamed(w http.ResponseWriter, kind, what string, write func(io.Writer) error) error {
	out := &fileBody{w: w, kind: kind}
	err := write(out)
	if err != nil && out.begun {
		s.Log.Warn("answer cut short", "what", what, "err", err)
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return err
	}
	out.begin()
	return nil
}
