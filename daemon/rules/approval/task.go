package approval

import "polis/daemon/api"

// maxForTask bounds the answers that are remembered for a task.
const maxForTask = 200

// Begin is called when the agent begins a task, or something that is no task (""): what was
// remembered for another is forgotten.
func (q *Queue) Begin(task string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.task != task {
		q.task, q.forTask = task, nil
	}
}

// rememberForTask remembers an answer while its task lasts. mu is held.
func (q *Queue) rememberForTask(task string, r api.ApprovalRule) {
	if task != q.task || len(q.forTask) >= maxForTask {
		return
	}
	q.forTask = append(q.forTask, r)
}

// decide answers a question by a rule. mu is held.
func (q *Queue) decide(question Question) (api.Answer, bool) {
	var r Rules
	if q.Rules != nil {
		r = q.Rules()
	}
	if question.Task == q.task && question.Task != "" {
		r.Remembered = append(r.Remembered[:len(r.Remembered):len(r.Remembered)], q.forTask...)
	}
	d := r.Decide(question)
	if d.Verdict == api.VerdictAsk {
		return api.Answer{}, false
	}
	by := d.Source
	return api.Answer{Verdict: d.Verdict, Reason: d.Reason, By: by, At: q.now(), Rule: d.Rule}, true
}

// Decided returns the answer that a rule gives to a question now. ok is false if a person decides.
func (q *Queue) Decided(question Question) (a api.Answer, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.decide(question)
}
