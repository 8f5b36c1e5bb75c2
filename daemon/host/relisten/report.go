package relisten

import (
	"fmt"
	"log/slog"

	"polis/daemon/api"
)

// Report is what a check found about one socket.
type Report struct {
	Path string
	// Found is what Check found.
	Found string
	// Err is why the socket is not made again; nil: it is.
	Err error
	// Count are the equal ones since the last report.
	Count int
}

// Event returns the event of polisd, or of an agent's shim.
func (r Report) Event(agent string) api.Event {
	e := api.Event{Type: api.EventSocket, Agent: agent, Message: fmt.Sprintf("the socket %s %s; it is made again", r.Path, r.Found), Data: map[string]any{"path": r.Path}}
	if r.Count > 0 {
		e.Data["count"] = r.Count
	}
	if r.Err == nil {
		return e
	}
	e.Message, e.Data["error"] = fmt.Sprintf("the socket %s %s, and it is not made again: %v", r.Path, r.Found, r.Err), r.Err.Error()
	if e.Code = api.CodeUnavailable; agent != "" {
		e.Code = api.CodeShimUnavailable
	}
	return e
}

// Log writes the report to a log.
func (r Report) Log(l *slog.Logger) {
	if r.Err != nil {
		l.Error("socket not made again", "op", "socket.keep", "path", r.Path, "why", r.Found, "err", r.Err)
		return
	}
	l.Warn("socket made again", "op", "socket.keep", "path", r.Path, "why", r.Found)
}
