package queue

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
)

const (
	// MaxSignals bounds a FlowBook; the oldest final ones go first. The queue has at most as many entries.
	MaxSignals     = 1200
	maxFinal       = 200
	maxSignalPaths = 20
	maxText        = 500
	// MaxDepth is how many times the rework of a rework is started unasked.
	MaxDepth = 3
)

// FlowBook has the signals of one workspace, oldest first. It is safe for concurrent use.
type FlowBook struct {
	mu      sync.Mutex
	signals []api.MergeSignal
}

// MergeID returns the ID of a queue entry's request: that of its task, so that an entry that is made again
// after a crash has the same.
func MergeID(e api.QueueEntry) string {
	if e.By == "task" && len(e.Tasks) > 0 {
		return e.Tasks[0]
	}
	return fmt.Sprintf("%s@%d", e.Agent, e.AddedAt.UnixMicro())
}

// Load takes over what was saved.
func (b *FlowBook) Load(signals []api.MergeSignal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signals = nil
	for _, s := range signals {
		known := s.State == api.MergeSignalReady || s.State == api.MergeSignalMerged || s.State == api.MergeSignalFailed || s.State == api.MergeSignalWithdrawn
		if s.ID != "" && s.Agent != "" && known && b.find(s.ID) == nil && len(b.signals) < MaxSignals {
			b.signals = append(b.signals, s)
		}
	}
}

// Signals returns all of them, oldest first.
func (b *FlowBook) Signals() []api.MergeSignal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.signals)
}

// find returns a signal; nil if there is none. b.mu is held.
func (b *FlowBook) find(id string) *api.MergeSignal {
	for i := range b.signals {
		if b.signals[i].ID == id {
			return &b.signals[i]
		}
	}
	return nil
}

// Sync takes over the entries of the queue: one without a signal is ready, and a signal whose agent
// has no entry was withdrawn. It reports whether something changed.
func (b *FlowBook) Sync(entries []api.QueueEntry, target string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := false
	waits := map[string]bool{}
	for _, e := range entries {
		waits[e.Agent] = true
		if e.ID == "" || b.find(e.ID) != nil {
			continue
		}
		s := api.MergeSignal{ID: e.ID, Agent: e.Agent, Target: target, Tasks: slices.Clone(e.Tasks), State: api.MergeSignalReady, Head: e.Commit, Ready: now.UTC()}
		for _, of := range b.signals {
			if r := of.Rework; r != nil && r.Agent == e.Agent && (r.Task == "" || slices.Contains(e.Tasks, r.Task)) && of.ID != e.ID {
				s.ReworkOf, s.Depth = of.ID, of.Depth+1
			}
		}
		b.signals = append(b.signals, s)
		changed = true
	}
	for i := range b.signals {
		if s := &b.signals[i]; s.State == api.MergeSignalReady && !waits[s.Agent] {
			at := now.UTC()
			s.State, s.Ended, changed = api.MergeSignalWithdrawn, &at, true
		}
	}
	b.trim()
	return changed
}

// Checked records the check that a request had: its command, and the file with its output. It comes before Landed.
func (b *FlowBook) Checked(id, command, log string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(id); s != nil && s.State == api.MergeSignalReady && log != "" {
		s.Check, s.Log = api.Shorten(command, maxText), log
	}
}

// Checks returns the requests of an agent that had a check and have ended, the newest first.
func (b *FlowBook) Checks(agent string) []api.MergeSignal {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []api.MergeSignal
	for _, s := range slices.Backward(b.signals) {
		if s.Agent == agent && s.Log != "" && s.Ended != nil {
			out = append(out, s)
		}
	}
	return out
}

// Landed records the result of a request. mode is [merge] rework, prompt makes the task of one. A
// result that is recorded already stays.
func (b *FlowBook) Landed(id string, out api.QueueOutcome, verified bool, mode string, prompt func(api.MergeSignal) string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.find(id)
	if s == nil || s.State == api.MergeSignalMerged || s.State == api.MergeSignalFailed {
		return
	}
	at := now.UTC()
	s.Ended = &at
	if out.Code == "" {
		s.State, s.MergeCommitSHA, s.Verified = api.MergeSignalMerged, out.MergeCommitSHA, verified
		for i := range b.signals {
			o := &b.signals[i]
			if o.State == api.MergeSignalFailed && o.ResolvedBy == "" && (o.Agent == s.Agent || o.ID == s.ReworkOf) {
				o.ResolvedBy = s.ID
				if o.Rework != nil && o.Rework.State != api.ReworkStarted {
					o.Rework = nil
				}
			}
		}
		b.trim()
		return
	}
	if out.Code == api.CodeNothingToMerge {
		s.State, s.Code = api.MergeSignalWithdrawn, out.Code
		b.trim()
		return
	}
	s.State, s.Code, s.Message, s.Paths = api.MergeSignalFailed, out.Code, api.Shorten(out.Message, maxText), slices.Clone(out.Paths[:min(len(out.Paths), maxSignalPaths)])
	if mode == api.ReworkNone || out.Code != api.CodeMergeConflict && out.Code != api.CodeCheckFailed {
		b.trim()
		return
	}
	s.Rework = &api.Rework{State: api.ReworkOffered, Same: mode == api.ReworkSame, Prompt: prompt(*s)}
	if mode != api.ReworkOffer && s.Depth < MaxDepth {
		s.Rework.State = api.ReworkWanted
	}
	b.trim()
}

// trim drops the oldest final signals that are too many. b.mu is held.
func (b *FlowBook) trim() {
	final := 0
	for _, s := range b.signals {
		if s.State != api.MergeSignalReady {
			final++
		}
	}
	b.signals = slices.DeleteFunc(b.signals, func(s api.MergeSignal) bool {
		drop := final > maxFinal && s.State != api.MergeSignalReady && s.Published == s.State
		if drop {
			final--
		}
		return drop
	})
}

// Unpublished returns the signals whose state was not published yet.
func (b *FlowBook) Unpublished() []api.MergeSignal {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []api.MergeSignal
	for _, s := range b.signals {
		if s.Published != s.State {
			out = append(out, s)
		}
	}
	return out
}

// Published records that a state was published.
func (b *FlowBook) Published(id string, state api.MergeSignalState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(id); s != nil && s.State == state {
		s.Published = state
	}
}

// Reworks returns the signals whose rework is to be started, or was being started.
func (b *FlowBook) Reworks() []api.MergeSignal {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []api.MergeSignal
	for _, s := range b.signals {
		if r := s.Rework; r != nil && s.ResolvedBy == "" && (r.State == api.ReworkWanted || r.State == api.ReworkStarting) {
			out = append(out, s)
		}
	}
	return out
}

// Last returns the newest failed request of an agent that nothing has resolved.
func (b *FlowBook) Last(agent string) (api.MergeSignal, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range slices.Backward(b.signals) {
		if s.Agent == agent {
			return s, s.State == api.MergeSignalFailed && s.ResolvedBy == "" && s.Rework != nil
		}
	}
	return api.MergeSignal{}, false
}

// SetRework replaces the rework of a failed request.
func (b *FlowBook) SetRework(id string, r api.Rework) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.find(id); s != nil && s.State == api.MergeSignalFailed {
		s.Rework = &r
	}
}
