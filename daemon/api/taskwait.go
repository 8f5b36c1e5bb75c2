package api

import (
	"fmt"
	"time"
)

// TaskInterruption is how far the decision about a lost task is.
type TaskInterruption string

// The stages. A task that was retried or dismissed has none.
const (
	// InterruptedNew: polisd must still do what [tasks] on_restart says.
	InterruptedNew TaskInterruption = "new"
	// InterruptedKept: a person retries or dismisses it. The tasks that wait do not begin before.
	InterruptedKept TaskInterruption = "kept"
	// InterruptedPassed: a person retries or dismisses it; no other task waits for that.
	InterruptedPassed TaskInterruption = "passed"
)

// What [tasks] on_restart does about a task that was lost at a restart.
const (
	OnRestartKeep  = "keep"
	OnRestartRetry = "retry"
	OnRestartAsk   = "ask"
)

// WaitFor is what a queued task waits for.
type WaitFor string

// What a queued task waits for.
const (
	WaitTask    WaitFor = "task"    // another task of its agent runs
	WaitProgram WaitFor = "program" // the program of its agent runs, and works on no task
	WaitLost    WaitFor = "lost"    // the task before it is lost, and nobody has decided about that
	WaitStopped WaitFor = "stopped" // its agent is stopped
	WaitError   WaitFor = "error"   // its agent is in state Error
)

// TaskWait is what a queued task waits for.
type TaskWait struct {
	For   WaitFor `json:"for"`
	Agent string  `json:"agent"`
	// Task is the task that runs, or that is lost.
	Task string `json:"task,omitempty"`
	// Since is when that began; zero if it is not known.
	Since time.Time `json:"since,omitzero"`
}

// Text is what is waited for and the two ways out of it, for people.
func (w TaskWait) Text() string {
	since, at := "", ""
	if !w.Since.IsZero() {
		at = w.Since.Local().Format(time.DateTime)
		since, at = " (since "+at+")", " at "+at
	}
	switch w.For {
	case WaitTask:
		return fmt.Sprintf("%[3]s works on %[1]s%[2]s; polisctl tasks cancel %[1]s ends it, polisctl tasks show %[1]s shows it", w.Task, since, w.Agent)
	case WaitProgram:
		return fmt.Sprintf("the program of %[1]s runs%[2]s; polisctl agents stop %[1]s ends it, polisctl agents attach %[1]s shows it", w.Agent, since)
	case WaitLost:
		return fmt.Sprintf("task %[1]s was lost%[2]s; polisctl tasks retry %[1]s does it again, polisctl tasks cancel %[1]s dismisses it", w.Task, at)
	case WaitStopped, WaitError:
		state := StatusStopped
		if w.For == WaitError {
			state = StatusError
		}
		return fmt.Sprintf("agent %[1]s is %[2]s; polisctl agents start %[1]s begins what waits, polisctl tasks cancel ID drops it", w.Agent, state)
	}
	return string(w.For)
}
