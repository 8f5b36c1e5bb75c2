package server

import (
	"bufio"
	"io"
	"net/http"

	"polis/daemon/api/wire"
)

// sendScreen answers with what a terminal shows: the last lines of its scroll-back
// and its screen, after lines that were in the log before its program began.
func (s *Server) sendScreen(w http.ResponseWriter, l outputLog, sc wire.Screen, lines int) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := bufio.NewWriter(w)
	// After the header an error of reading or writing cannot be reported to the client.
	if err := l.before(out, sc.Begin, lines-len(sc.Lines)); err != nil {
		return nil //nolint:nilerr // as said
	}
	for _, line := range sc.Lines {
		_, _ = out.WriteString(line) //nolint:errcheck // Flush returns the error again
		_ = out.WriteByte('\n')      //nolint:errcheck // Flush returns the error again
	}
	_ = out.Flush() //nolint:errcheck // the client left
	return nil
}

// before copies the last lines before a position, if that is in the log.
func (l outputLog) before(w io.Writer, pos int64, lines int) error {
	if pos < 0 || lines <= 0 || len(l) == 0 || l[0].base < 0 {
		return nil
	}
	var parts outputLog
	for _, p := range l {
		if p.base >= 0 && p.base < pos {
			p.size = min(p.size, pos-p.base)
			parts = append(parts, p)
		}
	}
	if err := parts.last(lines); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := io.Copy(w, io.NewSectionReader(p.f, p.begin, p.size-p.begin)); err != nil {
			return err
		}
	}
	return nil
}
