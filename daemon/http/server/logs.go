package server

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"polis/daemon/api"
)

const (
	maxLines  = 100000
	tailBlock = 64 << 10
)

// The files of an agent's output, and of the machine-readable output that it was made of.
const (
	outputLogName = "output.log"
	rawLogName    = "raw.log"
)

// streams reports whether a request is for machine-readable output, and the agent's last task
// has it: else its output is what its program printed.
func (s *Server) streams(r *http.Request) (bool, error) {
	if !flag(r, "raw") {
		return false, nil
	}
	tasks, err := s.Backend.Tasks(r.PathValue("name"))
	if err != nil {
		return false, err
	}
	for _, t := range slices.Backward(tasks) {
		if t.Began != nil {
			return t.Stream != "", nil
		}
	}
	return false, nil
}

// logs sends the last lines of an agent's output, or what comes after a
// position, and with follow=1 what comes. The header says at which position the
// answer begins; who counts the bytes can continue from any of them.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	lines := 50
	if q := r.URL.Query().Get("lines"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 0 || n > maxLines {
			return api.Errorf(api.CodeBadRequest, "lines = %q: must be from 0 to %d", api.Shorten(q, 32), maxLines)
		}
		lines = n
	}
	from := r.URL.Query().Get("from")
	at, err := strconv.ParseInt(from, 10, 64)
	if from != "" && (err != nil || at < 0) {
		return api.Errorf(api.CodeBadRequest, "from = %q: must be the number of a byte", api.Shorten(from, 32))
	}
	dir, err := s.Backend.LogDir(r.PathValue("name"))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, outputLogName)
	raw, err := s.streams(r)
	if err != nil {
		return err
	}
	if raw {
		path = filepath.Join(dir, rawLogName)
	}
	l, err := openLog(path)
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the output log: %w", err)
	}
	defer l.close()
	if from == "" && !raw && !flag(r, "follow") {
		if sc, ok := s.Backend.Screen(r.Context(), r.PathValue("name"), lines); ok {
			return s.sendScreen(w, l, sc, lines)
		}
	}
	if from == "" {
		err = l.last(lines)
	} else if !l.skipTo(at) {
		w.Header().Set(api.HeaderLogMissed, "1")
	}
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the output log: %w", err)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if pos, known := l.position(); known {
		w.Header().Set(api.HeaderLogPosition, strconv.FormatInt(pos, 10))
	}
	rc := http.NewResponseController(w)
	watch := watchLog(dir) // before what is there is read, so that nothing is missed between
	defer watch.close()
	f, err := l.send(w)
	defer func() { closeFile(f) }()
	if err != nil || !flag(r, "follow") {
		return nil //nolint:nilerr // the client left
	}
	tick := time.NewTicker(watch.every)
	defer tick.Stop()
	for {
		if rc.Flush() != nil {
			return nil
		}
		select {
		case <-watch.wrote:
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
