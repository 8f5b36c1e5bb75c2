package shim

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// mainTask is the task that the main command works on. Guarded by Shim.mu.
type mainTask struct {
	id     string // empty: the command is no task
	done   *wire.TaskDone
	output api.OutputRange // To is 0 until the command has ended
	began  api.TaskUse     // what the sandbox had used when the task began
	used   *api.TaskUse    // by the task, once it has ended
	update *api.StatusUpdate
}

// noteTask records the start of a task of the main command, and what the sandbox had used before. s.mu is held.
func (s *Shim) noteTask(id string, from int64, began api.TaskUse) {
	s.approvals.Begin(id)
	s.auditTask.Store(&id)
	if id != "" {
		s.lastTask = id
	}
	s.task = mainTask{id: id, output: api.OutputRange{From: from}, began: began}
}

// taskEnded records the end of the output and the resource use, once. s.mu is held.
func (s *Shim) taskEnded() {
	if s.task.output.To == 0 {
		s.auditTask.Store(nil)
		s.task.output.To = s.out.position()
		s.task.used = s.taskUse()
	}
}

// keepExit saves how the program of a task exited, before the exit is reported: polisd can be away, and
// the shim can die before it is back. What a shim that stops ended itself is not the task's end.
func (s *Shim) keepExit(m *session) {
	select {
	case <-s.stopping:
		return
	default:
	}
	s.mu.Lock()
	s.taskEnded()
	id, began := s.task.id, s.mainStart
	x := wire.TaskExit{At: m.ended.UTC(), Code: m.code, OOM: s.oomOfExit(m.code), Output: s.task.output, Use: s.task.used}
	s.mu.Unlock()
	if id == "" || m.code < 0 { // no task, or its exit was not seen
		return
	}
	x.Steps = m.taskSteps()
	x.Refused = slices.DeleteFunc(s.why(), func(w api.WhyEntry) bool { return w.Time.Before(began) || w.Probe })
	x.Refused = x.Refused[:min(len(x.Refused), task.MaxRefused)]
	if err := task.KeepExit(s.logDir(), id, x); err != nil {
		s.Log.Error("exit of a task's program not saved", "task", id, "exit_code", m.code, "err", err)
	}
}

// addTask adds the task to a status. s.mu is held.
func (s *Shim) addTask(st *wire.Status) {
	st.LogEnd, st.Update = s.out.position(), s.task.update
	if s.main == nil {
		return
	}
	if !st.Running {
		s.taskEnded()
	}
	output := s.task.output
	st.Task, st.Done, st.Output, st.Use = s.task.id, s.task.done, &output, s.task.used
	if st.Use == nil && s.task.id != "" {
		st.Use = s.taskUse()
	}
}

// use returns the denials, the time spent waiting for leases and for memory, and the peak of memory
// since the sandbox was made.
func (s *Shim) use() api.TaskUse {
	c := s.counters()
	u := api.TaskUse{ReadsDenied: c.ReadDenied, WritesDenied: c.WriteDenied, LockConflicts: c.LockConflicts, QuestionsDenied: c.QuestionsDenied, WaitedMS: s.views.waited.Load() / int64(time.Millisecond)}
	if stats, err := s.sandbox.Stats(); err == nil {
		u.MemoryPeakBytes = int64(stats.MemoryPeakBytes)
	}
	stalled, _ := s.sandbox.Group().MemoryStalled()
	u.MemoryStalledMS = stalled.Milliseconds()
	return u
}

// taskUse returns what was used since the main command began. The kernel counts one peak for the
// sandbox's whole life: if it has not grown, the task stayed below it.
func (s *Shim) taskUse() *api.TaskUse {
	was, u := s.task.began, s.use()
	u.ReadsDenied, u.WritesDenied, u.LockConflicts, u.WaitedMS = u.ReadsDenied-was.ReadsDenied, u.WritesDenied-was.WritesDenied, u.LockConflicts-was.LockConflicts, u.WaitedMS-was.WaitedMS
	u.QuestionsDenied -= was.QuestionsDenied
	u.MemoryStalledMS -= was.MemoryStalledMS
	u.MemoryPeakEarlier = u.MemoryPeakBytes > 0 && u.MemoryPeakBytes == was.MemoryPeakBytes
	return &u
}

// maxDoneText is the longest message of an agent about the end of its task, in bytes.
const maxDoneText = 1000

// insideDone ends the agent's task at the agent's request. polisd records the first end; the shim
// passes on the first request.
func (s *Shim) insideDone(w http.ResponseWriter, r *http.Request) error {
	var req api.DoneRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	return s.done(w, "", req)
}

func (s *Shim) done(w http.ResponseWriter, requestID string, req api.DoneRequest) error {
	by := cmp.Or(req.By, api.EndDone)
	switch {
	case by != api.EndDone && by != api.EndComplete:
		return api.Errorf(api.CodeBadRequest, "by = %q: must be %q or %q", api.Shorten(string(by), 32), api.EndDone, api.EndComplete)
	case len(req.Message) > maxDoneText:
		return api.Errorf(api.CodeBadRequest, "message has %d bytes: at most %d", len(req.Message), maxDoneText)
	}
	if err := api.CheckCleanup(req.CleanupStatus); err != nil {
		return err
	}
	res := api.DoneResponse{RequestID: requestID, Target: s.Spec.Target, Branches: s.branches()}
	var err error
	if res.Task, res.Already, err = s.taskDone(wire.TaskDone{At: time.Now().UTC(), By: by, Failed: req.Failed, Message: req.Message, CleanupStatus: req.CleanupStatus}); err != nil {
		return err
	}
	return writeJSON(w, res)
}

// branches are the agent's branches, the one that it was made with first.
func (s *Shim) branches() []string {
	if s.Spec.Branch == "" {
		return nil
	}
	out := []string{s.Spec.Branch}
	for _, ref := range s.views.ownedRefs() {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok && name != s.Spec.Branch && len(out) < maxDoneBranches {
			out = append(out, name)
		}
	}
	return out
}

// maxDoneBranches bounds the branches in the answer to an agent that has ended its task.
const maxDoneBranches = 20

// taskDone records that the agent ended its task itself. It is on disk before the request is answered:
// without polisd, the shim can be the only one that knows.
func (s *Shim) taskDone(done wire.TaskDone) (id string, already bool, err error) {
	s.doneMu.Lock()
	defer s.doneMu.Unlock()
	if id, already, err = s.currentTask(); err != nil || already {
		return id, already, err
	}
	if err := task.KeepDone(s.logDir(), id, done); err != nil {
		return id, false, api.Errorf(api.CodeStateNotSaved, "%w", err).WithHint("free space in the state directory, or make it writable")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil || s.main.over() || s.task.id != id {
		return id, false, s.noTask()
	}
	s.task.done = &done
	s.events.Publish(api.Event{Type: wire.EventDone, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + " says that its task is done", Data: map[string]any{"task": id}})
	return id, false, nil
}

// currentTask returns the task that the main command works on, and whether the agent has ended it.
func (s *Shim) currentTask() (id string, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main == nil || s.main.over() || s.task.id == "" {
		return "", false, s.noTask()
	}
	return s.task.id, s.task.done != nil, nil
}

func (s *Shim) noTask() error {
	return api.Errorf(api.CodeBadState, "agent %s works on no task that could be done", s.Spec.Agent).
		WithHint("a task is what polisctl run gives it; the branch of other work is merged with polisctl merge %s", s.Spec.Agent)
}
