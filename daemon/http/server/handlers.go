package server

import (
	"cmp"
	"net/http"
	"sort"
	"strconv"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	return s.reply(w, http.StatusOK, s.Backend.Status(r.Context()))
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	if err := s.Backend.Health(r.Context()); err != nil {
		return api.Errorf(api.CodeUnavailable, "the daemon is not well: %w", err)
	}
	return s.reply(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	text, err := s.Backend.Metrics(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text) //nolint:errcheck // the client left
	return nil
}

func (s *Server) doctor(w http.ResponseWriter, r *http.Request) error {
	rep, err := s.Backend.Doctor(r.Context())
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, rep)
}

func (s *Server) projectChecks(w http.ResponseWriter, r *http.Request) error {
	rep, err := s.Backend.ProjectChecks(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, rep)
}

func (s *Server) types(w http.ResponseWriter, _ *http.Request) error {
	m, err := s.Backend.Types()
	if err != nil {
		return err
	}
	out := make([]config.BaseType, 0, len(m))
	for _, t := range m {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return s.reply(w, http.StatusOK, map[string]any{"types": out})
}

func (s *Server) workspaces(w http.ResponseWriter, _ *http.Request) error {
	return s.reply(w, http.StatusOK, map[string]any{"workspaces": s.Backend.Workspaces()})
}

func (s *Server) up(w http.ResponseWriter, r *http.Request) error {
	var req api.UpRequest
	if err := read(r, &req); err != nil {
		return err
	}
	if strings.Contains(r.Header.Get("Accept"), "application/x-ndjson") {
		return s.progress(w, func(say func(string)) (any, error) { return s.Backend.Up(r.Context(), req, say) })
	}
	res, err := s.Backend.Up(r.Context(), req, func(string) {})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if res.Created {
		status = http.StatusCreated
	}
	return s.reply(w, status, res)
}

// progress answers with lines of JSON: {"progress"} ..., then {"result"} or {"error"}.
func (s *Server) progress(w http.ResponseWriter, f func(say func(string)) (any, error)) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	rc := http.NewResponseController(w)
	say := func(line map[string]any) {
		s.encode(w, line)
		if err := rc.Flush(); err != nil {
			s.Log.Debug("client left", "err", err)
		}
	}
	res, err := f(func(text string) { say(map[string]any{"progress": text}) })
	if err != nil {
		say(map[string]any{"error": api.AsError(err)})
		return nil
	}
	if st, ok := w.(*settling); ok { // the first line did not wait for what came after it
		st.settle()
	}
	say(map[string]any{"result": res})
	return nil
}

func (s *Server) top(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Backend.Top(r.Context())
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, t)
}

// workspace returns the name of the workspace that a query names or has the path of; "" if it has none.
func (s *Server) workspace(r *http.Request) (string, error) {
	named := r.URL.Query().Get("workspace")
	if named == "" {
		return "", nil
	}
	return s.Backend.WorkspaceName(named)
}

func (s *Server) locks(w http.ResponseWriter, r *http.Request) error {
	ws, err := s.workspace(r)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"locks": s.Backend.Locks(ws)})
}

func (s *Server) usage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	res, err := s.Backend.Usage(r.Context(), q.Get("workspace"), cmp.Or(q.Get("by"), "agent"), q.Get("since"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"usage": res})
}

func (s *Server) conflicts(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Conflicts(r.Context(), r.URL.Query().Get("workspace"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"conflicts": res})
}

func (s *Server) lock(w http.ResponseWriter, r *http.Request) error {
	var req api.LockRequest
	if err := read(r, &req); err != nil {
		return err
	}
	l, err := s.Backend.Lock(r.Context(), caller(r), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, l)
}

func (s *Server) unlock(w http.ResponseWriter, r *http.Request) error {
	var req api.LockRequest
	if err := read(r, &req); err != nil {
		return err
	}
	if err := s.Backend.Unlock(r.Context(), caller(r), req); err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, struct{}{})
}

func (s *Server) ports(w http.ResponseWriter, r *http.Request) error {
	return s.reply(w, http.StatusOK, map[string]any{"ports": s.Backend.PortMappings()})
}

func (s *Server) mapPort(w http.ResponseWriter, r *http.Request) error {
	var req api.PortRequest
	if err := read(r, &req); err != nil {
		return err
	}
	p, err := s.Backend.MapPort(r.Context(), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, p)
}

func (s *Server) unmapPort(w http.ResponseWriter, r *http.Request) error {
	port := func(field, text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 65535 {
			return 0, api.Errorf(api.CodeBadRequest, "%s = %q: a port is from 1 to 65535", field, api.Shorten(text, 32))
		}
		return n, nil
	}
	n, err := port("internal", r.PathValue("internal"))
	if err != nil {
		return err
	}
	last := n
	if text := r.URL.Query().Get("last"); text != "" {
		if last, err = port("last", text); err != nil {
			return err
		}
	}
	if err := s.Backend.UnmapPort(r.Context(), r.PathValue("agent"), r.URL.Query().Get("protocol"), n, last); err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, struct{}{})
}

func flag(r *http.Request, name string) bool {
	v, err := strconv.ParseBool(r.URL.Query().Get(name))
	return err == nil && v
}
