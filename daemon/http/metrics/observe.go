package metrics

import (
	"context"
	"encoding/json"
	"time"

	"polis/daemon/api"
	"polis/daemon/store/events"
)

var (
	mergeResults  = []string{"merged", "failed", "withdrawn"}
	answerResults = []string{string(api.VerdictApprove), string(api.VerdictDeny), string(api.VerdictAbort), "withdrawn"}
)

// Follow counts what the events of the hub report, until ctx ends. Events that the hub has dropped are
// not counted.
func (m *Metrics) Follow(ctx context.Context, hub *events.Hub) {
	hub.Follow(ctx, m.Observe)
}

// Observe counts an event, if it is the end of a request to merge or of a question.
func (m *Metrics) Observe(e api.Event) {
	switch e.Type {
	case api.EventMergeMerged:
		m.merge(e, "merged")
	case api.EventMergeFailed:
		m.merge(e, "failed")
	case api.EventMergeWithdrawn:
		m.merge(e, "withdrawn")
	case api.EventApprovalGone:
		m.question(e, "withdrawn")
	case api.EventApprovalAnswered:
		var v api.Verdict
		if field(e, "verdict", &v) {
			m.question(e, string(v))
		}
	}
}

func (m *Metrics) merge(e api.Event, result string) {
	var s api.MergeSignal
	if !field(e, "signal", &s) || s.Ended == nil || s.Ready.IsZero() || !m.seen.add(s.ID+" "+result) {
		return
	}
	m.merges.WithLabelValues(result).Observe(max(0, s.Ended.Sub(s.Ready).Seconds()))
}

func (m *Metrics) question(e api.Event, result string) {
	var since time.Time
	for _, known := range answerResults {
		if known == result && field(e, "since", &since) {
			m.questions.WithLabelValues(result).Observe(max(0, e.Time.Sub(since).Seconds()))
			return
		}
	}
}

// field reads a field of an event's data, which is a value of a Go type, or JSON that was decoded
// without it.
func field(e api.Event, name string, to any) bool {
	v, ok := e.Data[name]
	if !ok {
		return false
	}
	b, err := json.Marshal(v)
	return err == nil && json.Unmarshal(b, to) == nil
}

// maxRecent bounds recent.
const maxRecent = 1024

// recent is a set of the last names. Only the goroutine of Follow uses it.
type recent struct {
	set  map[string]bool
	ring []string
	next int
}

// add reports whether the name is not one of the last.
func (r *recent) add(name string) bool {
	if r.set[name] {
		return false
	}
	if r.set == nil {
		r.set = map[string]bool{}
	}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, name)
	} else {
		delete(r.set, r.ring[r.next])
		r.ring[r.next] = name
		r.next = (r.next + 1) % maxRecent
	}
	r.set[name] = true
	return true
}
