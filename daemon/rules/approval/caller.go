package approval

import "polis/daemon/api"

// Caller is one call that waits for an answer.
type Caller struct {
	queue *Queue
	it    *item // nil if a rule decided
	auto  api.Answer
	left  bool
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
