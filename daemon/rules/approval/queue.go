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

// Question is an open question in the characters of its caller; false: it is not open.
func (q *Queue) Question(id string) (Question, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.byID[id]
	if !ok || it.answer != nil || it.gone {
		return Question{}, false
	}
	return it.q, true
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
	if it.q.rememberable() == nil {
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
