package receipt

import (
	"time"

	"polis/daemon/api"
)

// maxPending is how many entries of one log are kept in memory while it cannot be written.
const maxPending = 4096

// add makes an entry of one event. r.mu is held.
func (r *Recorder) add(agent string, x queued, now time.Time) {
	e := x.event
	ws, _ := e.Data["workspace"].(string)
	switch {
	case ws == "":
		ws = r.known[agent]
	case agent != "":
		r.known[agent] = ws
	}
	if ws == "" {
		return
	}
	to := target{workspace: ws}
	if agent != "" && byAgent(e.Type) && validLog(agent) { // a person's lock is in the log of the workspace
		to.log = agent
		s := r.shares[agent]
		if s == nil {
			s = &share{}
			r.shares[agent] = s
		}
		if !s.use(now) {
			r.dropped[to] += x.count
			return
		}
	}
	if len(r.pending[to]) >= maxPending {
		r.dropped[to] += x.count
		return
	}
	entry := Entry{Time: e.Time, Type: e.Type, Agent: agent, Code: e.Code, Message: e.Message}
	if x.count > 1 {
		entry.Count = x.count
	}
	if len(e.Data) > 0 {
		entry.Data = raw(e.Data)
	}
	r.pending[to] = append(r.pending[to], entry)
}

// flush writes what is pending, and reports whether something is left. end: it is the last time.
func (r *Recorder) flush(end bool) (left bool) {
	stores := r.Stores()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	for to := range r.dropped {
		if _, ok := r.pending[to]; !ok && (end || now.Sub(r.told[to]) >= retry) {
			r.pending[to] = nil
		}
	}
	for to, list := range r.pending {
		s := stores[to.workspace]
		if s == nil { // it was removed from polis
			r.forget(to)
			continue
		}
		n := r.dropped[to]
		if now.Sub(r.told[to]) < retry && !end {
			n = 0
		}
		if n > 0 {
			list = append(list[:len(list):len(list)], Entry{Type: api.ReceiptMissed, Agent: to.log, Count: n, Message: "entries were dropped: there were more than the share of the log, or the log could not be written"})
		}
		err := s.Append(to.log, list...)
		r.noteFault(to, err)
		if err != nil {
			left = true
			continue
		}
		if n > 0 {
			r.told[to] = now
			delete(r.dropped, to)
		}
		delete(r.pending, to)
	}
	return left || len(r.dropped) > 0
}

func (r *Recorder) noteFault(to target, err error) {
	was := r.faults[to]
	switch {
	case err != nil && was == nil:
		r.Log.Error("receipts not written", "workspace", to.workspace, "agent", to.log, "err", err)
		r.faults[to] = err
		r.Faulty(to.workspace, err)
	case err == nil && was != nil:
		r.Log.Warn("receipts are written again", "workspace", to.workspace, "agent", to.log)
		delete(r.faults, to)
		r.Faulty(to.workspace, nil)
	}
}

func (r *Recorder) forget(to target) {
	delete(r.pending, to)
	delete(r.dropped, to)
	delete(r.told, to)
	delete(r.faults, to)
}
