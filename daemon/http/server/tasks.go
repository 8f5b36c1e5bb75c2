package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"polis/daemon/api"
)

// Bounds of requests about tasks.
const (
	maxTaskList  = 1000
	usualTasks   = 100
	maxTaskWait  = 300
	outputChunks = 64 << 20
)

func (s *Server) tasks(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Backend.Tasks(r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"tasks": t})
}

// number reads a query that is a whole number from 0 to most.
func number(r *http.Request, name string, usual, most int) (int, error) {
	q := r.URL.Query().Get(name)
	if q == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(q)
	if err != nil || n < 0 || n > most {
		return 0, api.Errorf(api.CodeBadRequest, "%s = %q: must be from 0 to %d", name, api.Shorten(q, 32), most)
	}
	return n, nil
}

func (s *Server) allTasks(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", usualTasks, maxTaskList)
	if err != nil {
		return err
	}
	ws, err := s.workspace(r)
	if err != nil {
		return err
	}
	t, err := s.Backend.AllTasks(ws, limit)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"tasks": t})
}

func (s *Server) task(w http.ResponseWriter, r *http.Request) error {
	wait, err := number(r, "wait", 0, maxTaskWait)
	if err != nil {
		return err
	}
	ctx, cancel := s.waiting(r, wait)
	defer cancel()
	t, err := s.Backend.Task(ctx, r.PathValue("id"), wait > 0)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, t)
}

// waiting bounds how long a request waits for a result; the daemon's end is the end of waiting.
func (s *Server) waiting(r *http.Request, seconds int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s *Server) cancelTask(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Backend.CancelTask(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, t)
}

func (s *Server) retryTask(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Backend.RetryTask(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, t)
}

func (s *Server) taskDiff(w http.ResponseWriter, r *http.Request) error {
	opt := api.DiffRequest{Stat: flag(r, "stat"), NameOnly: flag(r, "names"), Committed: true}
	return s.sendDiff(w, r.PathValue("id"), func(out io.Writer) error {
		return s.Backend.DiffTask(r.Context(), r.PathValue("id"), opt, out)
	})
}

// taskOutput sends the part of the agent's output log that is the task's, or with raw=1
// of its raw log.
func (s *Server) taskOutput(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Backend.Task(r.Context(), r.PathValue("id"), false)
	if err != nil {
		return err
	}
	name, part := outputLogName, t.Output
	if flag(r, "raw") && t.Raw != nil {
		name, part = rawLogName, t.Raw
	}
	if part == nil {
		why := "the place of its output in the agent's log is not known"
		if t.State == api.TaskQueued {
			why = "it has not begun"
		}
		return api.Errorf(api.CodeNotFound, "task %s has no output: %s", t.ID, why).WithHint("polisctl agents watch %s shows the last output of its agent", t.Agent)
	}
	dir, err := s.Backend.LogDir(t.Agent)
	if err != nil {
		return err
	}
	l, err := openLog(filepath.Join(dir, name))
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the output log: %w", err)
	}
	defer l.close()
	if !l.skipTo(part.From) {
		w.Header().Set(api.HeaderLogMissed, "1")
	}
	pos, _ := l.position()
	left := int64(outputChunks)
	if part.To > 0 {
		left = min(left, max(part.To-pos, 0))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	f, err := l.send(&upTo{w, left})
	closeFile(f)
	if err != nil && !errors.Is(err, errEnough) {
		s.Log.Debug("client gone", "err", err)
	}
	return nil
}

var errEnough = errors.New("that is all of it")

// upTo passes on so many bytes.
type upTo struct {
	w    io.Writer
	left int64
}

func (u *upTo) Write(p []byte) (int, error) {
	n := min(int64(len(p)), u.left)
	u.left -= n
	if _, err := u.w.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < int64(len(p)) {
		return int(n), errEnough
	}
	return int(n), nil
}
