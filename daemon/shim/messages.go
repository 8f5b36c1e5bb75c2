package shim

import (
	"cmp"
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
	case req.Message == "" && req.Status == "" || len(req.Message) > maxDoneText:
		return api.Errorf(api.CodeBadRequest, "message has %d bytes: from 1 to %d, or none with a status", len(req.Message), maxDoneText)
	case len(req.RequestID) > maxRequestID || len(req.Status) > maxStatusWord || len(req.Tool) > maxStatusWord:
		return api.Errorf(api.CodeBadRequest, "requestId, status and currentTool have %d, %d and %d bytes: at most %d", len(req.RequestID), len(req.Status), len(req.Tool), maxStatusWord)
	case !s.statusUpdates.pass(time.Now()):
		return api.Errorf(api.CodeQuota, "agent %s sends too many status updates", s.Spec.Agent).WithHint("send one when something has changed")
	}
	req.Type = "status_update"
	s.mu.Lock()
	s.task.update = &req
	s.mu.Unlock()
	data := map[string]any{"status": req.Status, "message": req.Message}
	for name, v := range map[string]string{"requestId": req.RequestID, "currentTool": req.Tool} {
		if v != "" {
			data[name] = v
		}
	}
	if req.Tokens != nil {
		data["tokensUsed"] = *req.Tokens
	}
	s.events.Publish(api.Event{Type: api.EventStatusUpdate, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + ": " + cmp.Or(req.Message, req.Status), Data: data})
	return writeJSON(w, api.StatusUpdated{Type: req.Type, RequestID: req.RequestID})
}

// Bounds of the words of a message, in bytes.
const (
	maxRequestID  = 128
	maxStatusWord = 128
)

// insideComplete is task_complete of an agent's program: the same end as polisctl done.
func (s *Shim) insideComplete(w http.ResponseWriter, r *http.Request) error {
	var req api.TaskComplete
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Type != "" && req.Type != "task_complete" {
		return wrongType(req.Type, "task_complete")
	}
	if len(req.RequestID) > maxRequestID {
		return api.Errorf(api.CodeBadRequest, "requestId has %d bytes: at most %d", len(req.RequestID), maxRequestID)
	}
	return s.done(w, req.RequestID, api.DoneRequest{By: api.EndComplete, Failed: req.Success != nil && !*req.Success, Message: req.Message})
}
