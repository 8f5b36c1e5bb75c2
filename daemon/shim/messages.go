package shim

import (
	"net/http"
	"time"

	"polis/daemon/api"
)

// insideStatusUpdate is status_update of an agent's program: an event, for people.
func (s *Shim) insideStatusUpdate(w http.ResponseWriter, r *http.Request) error {
	var req api.StatusUpdate
	if err := readJSON(r, &req); err != nil {
		return err
	}
	switch {
	case req.Type != "" && req.Type != "status_update":
		return wrongType(req.Type, "status_update")
	case req.Message == "" || len(req.Message) > maxDoneText:
		return api.Errorf(api.CodeBadRequest, "message has %d bytes: from 1 to %d", len(req.Message), maxDoneText)
	case !s.statusUpdates.pass(time.Now()):
		return api.Errorf(api.CodeQuota, "agent %s sends too many status updates", s.Spec.Agent).WithHint("send one when something has changed")
	}
	s.events.Publish(api.Event{Type: api.EventStatusUpdate, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + ": " + req.Message,
		Data: map[string]any{"status": api.Shorten(req.Status, 64), "message": req.Message}})
	return writeJSON(w, struct{}{})
}

// insideComplete is task_complete of an agent's program: the same end as polisctl done.
func (s *Shim) insideComplete(w http.ResponseWriter, r *http.Request) error {
	var req api.TaskComplete
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Type != "" && req.Type != "task_complete" {
		return wrongType(req.Type, "task_complete")
	}
	return s.done(w, api.DoneRequest{By: api.EndComplete, Failed: req.Success != nil && !*req.Success, Message: req.Message})
}
