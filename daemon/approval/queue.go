package approval

import (
	"crypto/rand"
	"encoding/base32"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
)

// The default bounds of a Queue.
const (
	DefaultMax     = 32  // open questions
	DefaultCallers = 128 // calls that wait, for all questions together
	keptAnswers    = 256 // of questions that are closed
)

// Queue has the questions of one agent. Assign its fields, then use it.
type Queue struct {
	Agent, Workspace string
	// Max and Callers bound open questions and waiting calls; 0: the defaults.
	Max, Callers int
	// Rules are the present rules; nil: there are none, and every question is open.
	Rules func() Rules
	// Publish reports what happened. It is called with the queue's lock held, must not block
	// and must not call the queue; nil: nothing is reported.
	Publish func(Change)
	// Now and NewID are for tests.
	Now   func() time.Time
	NewID func() string

	mu      sync.Mutex
	open    []*item // oldest first
	byKey   map[key]*item
	byID    map[string]*item
	closed  []string // IDs, oldest first: keptAnswers of them are known
	used    []string // request IDs of closed questions
	calls   int
	task    string
	forTask []api.ApprovalRule
}

// Change is one thing that happened to a question.
type Change struct {
	// Asked: it is new. Otherwise it was answered, or all its callers left.
	Asked    bool
	Approval api.Approval
	// Rule is to be remembered, if not nil.
	Rule *api.ApprovalRule
}

// item is one question. Queue.mu guards it.
type item struct {
	id       string
	key      key
	q        Question
	since    time.Time
	deadline time.Time
	callers  int
	answer   *api.Answer // nil while it is open
	gone     bool        // all callers left
	done     chan struct{}
}

// Caller is one call that waits for an answer.
type Caller struct {
	queue *Queue
	it    *item // nil if a rule decided
	auto  api.Answer
	left  bool
}

// Ask asks. A rule may answer at once; otherwise the call waits for Done, and must Leave. until
// is when it leaves at the latest, for people to see.
func (q *Queue) Ask(question Question, until time.Time) (*Caller, error) {
	if err := question.check(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if question.Request != "" && slices.Contains(q.used, question.Request) {
		return nil, api.Errorf(api.CodeBadState, "requestId %q was used before", api.Shorten(question.Request, 64)).WithHint("every request needs an ID of its own")
	}
	if a, ok := q.decide(question); ok {
		return &Caller{queue: q, auto: a}, nil
	}
	k := question.key()
	it := q.byKey[k]
	if question.Request != "" {
		for _, o := range q.open {
			if o.q.Request == question.Request && o != it {
				return nil, api.Errorf(api.CodeBadState, "requestId %q is that of another question", api.Shorten(question.Request, 64)).WithHint("every request needs an ID of its own")
			}
		}
	}
	if most := orDefault(q.Callers, DefaultCallers); q.calls >= most {
		return nil, api.Errorf(api.CodeQuota, "%d calls of agent %s wait for an answer already: that is the limit", q.calls, q.Agent).WithHint("wait until one is answered")
	}
	now := q.now()
	if it == nil {
		if most := orDefault(q.Max, DefaultMax); len(q.open) >= most {
			return nil, api.Errorf(api.CodeQuota, "agent %s has %d open questions: that is the limit", q.Agent, most).WithHint("wait until one is answered")
		}
		it = &item{id: q.newID(), key: k, q: question, since: now, done: make(chan struct{})}
		q.add(it)
	}
	it.deadline = later(it.deadline, until)
	it.callers++
	q.calls++
	if it.callers == 1 {
		q.publish(Change{Asked: true, Approval: q.view(it)})
	}
	return &Caller{queue: q, it: it}, nil
}

// ID is the question's; "" if a rule decided.
func (c *Caller) ID() string {
	if c.it == nil {
		return ""
	}
	return c.it.id
}

// Done is closed when there is an answer.
func (c *Caller) Done() <-chan struct{} {
	if c.it != nil {
		return c.it.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Leave ends the call. ok is false if there is no answer: then the caller is denied, and a
// question without callers is closed. An answer that came before is never lost.
func (c *Caller) Leave() (a api.Answer, ok bool) {
	if c.it == nil {
		return c.auto, true
	}
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.left {
		c.left = true
		q.calls--
		c.it.callers--
		if c.it.callers == 0 && c.it.answer == nil {
			c.it.gone = true
			q.close(c.it)
			q.publish(Change{Approval: q.view(c.it)})
		}
	}
	if c.it.answer == nil {
		return api.Answer{}, false
	}
	return *c.it.answer, true
}

// Answer answers a question for all its callers; the first answer counts.
func (q *Queue) Answer(id string, a api.Answer) (Change, error) {
	if err := checkAnswer(a); err != nil {
		return Change{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.byID[id]
	switch {
	case !ok:
		return Change{}, api.Errorf(api.CodeNotFound, "there is no question %q of agent %s", api.Shorten(id, 64), q.Agent).WithHint("polisctl approvals list")
	case it.gone:
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeNotFound, "question %s is withdrawn: what asked does not wait any more", id).WithHint("polisctl approvals list")
	case it.answer != nil:
		b := *it.answer
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeAlreadyAnswered, "question %s was answered by %s: %s", id, b.By, b.Verdict).
			With("verdict", b.Verdict).With("by", b.By).With("at", b.At).With("scope", b.Scope).WithHint("the first answer counts")
	}
	if a.Scope == "" {
		a.Scope = api.ScopeOnce
	}
	if a.Scope != api.ScopeOnce && len(it.q.Text) > MaxRemembered {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeBadRequest, "question %s has %d bytes: at most %d can be remembered", id, len(it.q.Text), MaxRemembered).WithHint("answer it once")
	}
	if a.Scope == api.ScopeRole && a.Role == "" {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeBadRequest, "agent %s has no role that the answer could be for", q.Agent).WithHint("answer once, or for the agent")
	}
	if a.Scope == api.ScopeTask && it.q.Task == "" {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeBadRequest, "agent %s works on no task that the answer could be for", q.Agent).WithHint("answer once, or for the agent")
	}
	a.At = q.now()
	it.answer = &a
	q.close(it)
	c := Change{Approval: q.view(it)}
	if a.Scope != api.ScopeOnce && a.Verdict != api.VerdictAbort {
		c.Rule = &api.ApprovalRule{ID: id, Workspace: q.Workspace, Verdict: a.Verdict, Kind: it.q.Kind, Tool: it.q.Tool, What: it.q.Text, By: a.By, At: a.At, Reason: a.Reason,
			Text: RuleText(it.q.Kind, it.q.Tool, it.q.Text)}
		if a.Scope == api.ScopeRole {
			c.Rule.Role = a.Role
		} else {
			c.Rule.Agent = q.Agent
		}
		if a.Scope == api.ScopeTask {
			q.rememberForTask(it.q.Task, *c.Rule)
			c.Rule = nil
		}
	}
	close(it.done)
	q.publish(c)
	return c, nil
}

func checkAnswer(a api.Answer) error {
	switch {
	case a.Verdict != api.VerdictApprove && a.Verdict != api.VerdictDeny && a.Verdict != api.VerdictAbort:
		return api.Errorf(api.CodeBadRequest, "verdict = %q: must be %q, %q or %q", api.Shorten(string(a.Verdict), 32), api.VerdictApprove, api.VerdictDeny, api.VerdictAbort)
	case a.Scope != "" && !slices.Contains([]api.AnswerScope{api.ScopeOnce, api.ScopeTask, api.ScopeAgent, api.ScopeRole}, a.Scope):
		return api.Errorf(api.CodeBadRequest, "scope = %q: must be once, task, agent or role", api.Shorten(string(a.Scope), 32))
	case a.Verdict == api.VerdictAbort && a.Scope != "" && a.Scope != api.ScopeOnce:
		return api.Errorf(api.CodeBadRequest, "abort is not remembered: scope = %q", a.Scope)
	case len(a.Reason) > api.MaxAnswerReason:
		return api.Errorf(api.CodeBadRequest, "reason has %d bytes: at most %d", len(a.Reason), api.MaxAnswerReason)
	}
	return nil
}

// Open are the open questions, oldest first.
func (q *Queue) Open() []api.Approval {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]api.Approval, 0, len(q.open))
	for _, it := range q.open {
		out = append(out, q.view(it))
	}
	return out
}

// Get is one question, open or closed not long ago.
func (q *Queue) Get(id string) (api.Approval, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.byID[id]
	if !ok {
		return api.Approval{}, api.Errorf(api.CodeNotFound, "there is no question %q of agent %s", api.Shorten(id, 64), q.Agent).WithHint("polisctl approvals list")
	}
	return q.view(it), nil
}

// Waiting is what the agent waits for; nil if no question is open.
func (q *Queue) Waiting() *api.Waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) == 0 {
		return nil
	}
	v := q.view(q.open[0])
	what, _ := Bounded(q.open[0].q.Text, 200)
	return &api.Waiting{For: api.WaitingApproval, Since: v.Since, ID: v.ID, What: Line(v.Kind, v.Tool, what), Open: len(q.open)}
}

// view is a question as people see it. mu is held.
func (q *Queue) view(it *item) api.Approval {
	v := api.Approval{ID: it.id, Agent: q.Agent, Workspace: q.Workspace, Task: it.q.Task, Kind: it.q.Kind, Tool: Escape(it.q.Tool), Class: it.q.Class,
		Note: Escape(it.q.Note), PID: it.q.PID, Program: Escape(it.q.Program), Callers: it.callers, Since: it.since, Deadline: it.deadline}
	v.What, v.WhatHidden = Bounded(it.q.Text, MaxShown)
	v.Detail, v.DetailHidden = Bounded(it.q.Detail, MaxShown)
	if len(it.q.Text) <= MaxRemembered {
		v.Remember = RuleText(it.q.Kind, it.q.Tool, it.q.Text)
	}
	if it.answer != nil {
		a := *it.answer
		v.Answer = &a
	}
	return v
}

func (q *Queue) add(it *item) {
	if q.byKey == nil {
		q.byKey, q.byID = map[key]*item{}, map[string]*item{}
	}
	q.open = append(q.open, it)
	q.byKey[it.key], q.byID[it.id] = it, it
}

// close ends an open question. Its outcome is known for a while.
func (q *Queue) close(it *item) {
	q.open = slices.DeleteFunc(q.open, func(o *item) bool { return o == it })
	delete(q.byKey, it.key)
	it.q.Detail = "" // it is the largest part, and nobody decides by it any more
	if it.q.Request != "" {
		q.used = appendBounded(q.used, it.q.Request)
	}
	if len(q.closed) >= keptAnswers {
		delete(q.byID, q.closed[0])
	}
	q.closed = appendBounded(q.closed, it.id)
}

func appendBounded(list []string, s string) []string {
	if len(list) >= keptAnswers {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, s)
}

// newID makes an ID that no question of the agent has had: one that was noted long ago must
// not answer another.
func (q *Queue) newID() string {
	for {
		id := q.NewID
		if id == nil {
			id = randomID
		}
		s := q.Agent + "." + id()
		if _, known := q.byID[s]; !known {
			return s
		}
	}
}

func randomID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

func (q *Queue) publish(c Change) {
	if q.Publish != nil {
		q.Publish(c)
	}
}

func (q *Queue) now() time.Time {
	if q.Now != nil {
		return q.Now().UTC()
	}
	return time.Now().UTC()
}

func orDefault(n, most int) int {
	if n == 0 {
		return most
	}
	return n
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC()
	}
	return a
}
