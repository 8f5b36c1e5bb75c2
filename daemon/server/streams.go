package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"polis/daemon/api"
)

// events answers with the kept events, or streams them as server-sent events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	hub := s.Backend.Events()
	text := r.URL.Query().Get("since")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		text = id
	}
	var since uint64
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return api.Errorf(api.CodeBadRequest, "since = %q: must be the number of an event", api.Shorten(text, 32))
		}
		since = n
	}
	if !flag(r, "follow") {
		evs, _, missed := hub.Read(since)
		if missed {
			evs = append([]api.Event{missing(since)}, evs...)
		}
		if evs == nil {
			evs = []api.Event{}
		}
		return s.reply(w, http.StatusOK, map[string]any{"events": evs})
	}
	wake, cancel := hub.Watch()
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		evs, last, missed := hub.Read(since)
		if missed {
			evs = append([]api.Event{missing(since)}, evs...)
			since = last // from here on only what is missed anew is told
		}
		for _, e := range evs {
			b, err := json.Marshal(e)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, b); err != nil {
				return nil
			}
			since = max(since, e.ID)
		}
		if rc.Flush() != nil {
			return nil
		}
		select {
		case <-wake:
		case <-tick.C:
			if _, err := io.WriteString(w, ": still here\n\n"); err != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		}
	}
}

// missing stands for the events after a number that are not kept. It has that
// number, so that who resumes after it asks for the same again.
func missing(since uint64) api.Event {
	return api.Event{ID: since, Time: time.Now(), Type: api.EventEventsMissed,
		Message: fmt.Sprintf("events after %d are missing: polisd was restarted, or there were too many; the state is in GET /v1/status", since)}
}

const (
	maxLines  = 100000
	tailBlock = 64 << 10
)

// logs sends the last lines of an agent's output and, with follow=1, what comes.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	lines := 50
	if q := r.URL.Query().Get("lines"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 0 || n > maxLines {
			return api.Errorf(api.CodeBadRequest, "lines = %q: must be from 0 to %d", api.Shorten(q, 32), maxLines)
		}
		lines = n
	}
	dir, err := s.Backend.LogDir(r.PathValue("name"))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "output.log")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rc := http.NewResponseController(w)
	f, err := tail(w, path, lines)
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the output log: %w", err)
	}
	defer func() { closeFile(f) }()
	if !flag(r, "follow") {
		return nil
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if rc.Flush() != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		}
		if f, err = more(w, f, path); err != nil {
			return nil //nolint:nilerr // the client left, or the log went with its agent
		}
	}
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() //nolint:errcheck // opened for reading
	}
}

// tail writes the last lines and returns the file at its end; nil if there is none yet.
func tail(w io.Writer, path string, lines int) (*os.File, error) {
	var parts [][]byte
	var last *os.File
	have := 0
	for _, p := range []string{path, path + ".1"} {
		f, err := os.Open(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			closeFile(last)
			return nil, err
		}
		b, n, err := lastLines(f, lines-have)
		if p == path && err == nil {
			last = f
		} else {
			closeFile(f)
		}
		if err != nil {
			closeFile(last)
			return nil, err
		}
		parts, have = append(parts, b), have+n
		if have >= lines {
			break
		}
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if _, err := w.Write(parts[i]); err != nil {
			return last, nil //nolint:nilerr // the client left; the next write ends the request
		}
	}
	return last, nil
}

// lastLines returns at most n last lines of f and leaves f at its end.
func lastLines(f *os.File, n int) ([]byte, int, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || n <= 0 {
		return nil, 0, err
	}
	var buf []byte
	count := 0
	for pos := end; pos > 0; {
		size := min(pos, tailBlock)
		pos -= size
		block := make([]byte, size)
		if _, err := f.ReadAt(block, pos); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		for i := len(block) - 1; i >= 0; i-- {
			// The newline that ends the last line does not begin another.
			if block[i] == '\n' && pos+int64(i) != end-1 {
				if count++; count == n {
					return slices.Concat(block[i+1:], buf), n, nil
				}
			}
		}
		buf = slices.Concat(block, buf)
	}
	if len(buf) > 0 {
		count++
	}
	return buf, count, nil
}

// more copies what came since and follows a rotation.
func more(w io.Writer, f *os.File, path string) (*os.File, error) {
	if f != nil {
		if _, err := io.Copy(w, f); err != nil {
			return f, err
		}
		a, err1 := f.Stat()
		b, err2 := os.Stat(path)
		if err1 != nil || err2 != nil || os.SameFile(a, b) {
			return f, nil //nolint:nilerr // between two renames of a rotation: look again
		}
		if _, err := io.Copy(w, f); err != nil {
			return f, err
		}
		closeFile(f)
	}
	n, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, n)
	return n, err
}
