package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
			since = last // from here on only newly missed events are reported
		}
		for _, e := range evs {
			if sendEvent(w, e) != nil {
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
			// What was published until now is sent; the next request continues behind it.
			evs, _, _ := hub.Read(since)
			for _, e := range evs {
				if sendEvent(w, e) != nil {
					return nil
				}
			}
			return nil
		}
	}
}

func sendEvent(w io.Writer, e api.Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, b)
	return err
}

// missing stands for the events after a number that are not kept. It has that
// number, so that who resumes after it asks for the same again.
func missing(since uint64) api.Event {
	return api.Event{ID: since, Time: time.Now(), Type: api.EventEventsMissed,
		Message: fmt.Sprintf("events after %d are missing: polisd was restarted, or there were too many; the state is in GET /v1/status", since)}
}
