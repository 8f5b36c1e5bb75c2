package shim

import (
	"cmp"
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

// mainTask is the task that the main command is. Shim.mu guards it.
type mainTask struct {
	id     string // empty: the command is no task
	done   *wire.TaskDone
	output api.OutputRange // To is 0 until the command has ended
}

// ended notes where the output ends, once.
func (t *mainTask) ended(log *logFile) {
	if t.output.To == 0 {
		t.output.To = log.position()
	}
}

// tell puts what is known of the task into a status.
func (t *mainTask) tell(st *wire.Status, log *logFile) {
	if !st.Running {
		t.ended(log)
	}
	output := t.output
	st.Task, st.Done, st.Output = t.id, t.done, &output
}

// maxDoneText bounds what an agent says of the end of its task, in bytes.
const maxDoneText = 1000

// insideDone ends the agent's task, because the agent says so. It is the first
// end that counts: polisd has the record, the shim passes on what was said first.
func (s *Shim) insideDone(w http.ResponseWriter, r *http.Request) error {
	var req api.DoneRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	by := cmp.Or(req.By, api.EndDone)
	switch {
	case by != api.EndDone && by != api.EndComplete:
		return api.Errorf(api.CodeBadRequest, "by = %q: must be %q or %q", api.Shorten(string(by), 32), api.EndDone, api.EndComplete)
	case len(req.Message) > maxDoneText:
		return api.Errorf(api.CodeBadRequest, "message has %d bytes: at most %d", len(req.Message), maxDoneText)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil || s.main.over() || s.task.id == "" {
		return api.Errorf(api.CodeBadState, "agent %s works on no task that could be done", s.Spec.Agent).
			WithHint("a task is what polisctl run gives it; the branch of other work is merged with polisctl merge %s", s.Spec.Agent)
	}
	res := api.DoneResponse{Task: s.task.id, Already: s.task.done != nil}
	if !res.Already {
		s.task.done = &wire.TaskDone{At: time.Now().UTC(), By: by, Failed: req.Failed, Message: req.Message}
		s.events.Publish(api.Event{Type: wire.EventDone, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + " says that its task is done", Data: map[string]any{"task": s.task.id}})
	}
	return writeJSON(w, res)
}
