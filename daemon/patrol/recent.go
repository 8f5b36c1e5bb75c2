package patrol

import (
	"time"

	"polis/daemon/api"
)

const (
	// recent is for how long what was learned of an agent counts, unless the patrol acts on it: a query
	// of its shim costs more than all else that the patrol reads of it.
	recent = time.Minute
	// recentStood is the same for an agent of which no process has run since. Then its program has
	// neither ended nor printed, opened nor sent anything, and waits for what it waited for.
	recentStood = 10 * time.Minute
)

// Recent reports whether what was learned of an agent age ago still counts. stood is whether none of
// its processes has run since then.
func Recent(age time.Duration, stood bool) bool {
	if stood {
		return age < recentStood
	}
	return age < recent
}

// Waited has what suspects wait for, as it was found out last. The zero value has nothing.
type Waited struct{ of map[string]waited }

type waited struct {
	key   key
	class api.PatrolClass
	since time.Time
	at    time.Time
	waits Waits
}

// Known returns what a suspect waits for, if that was found out recently, and none of its processes has
// run since.
func (w *Waited) Known(now time.Time, s Suspect, stood bool) (Waits, bool) {
	k, ok := w.of[s.Agent]
	if !ok || !stood || k.key != s.key || k.class != s.Class || !k.since.Equal(s.Since) || !Recent(now.Sub(k.at), true) {
		return Waits{}, false
	}
	return k.waits, true
}

// Note records what a suspect was found to wait for.
func (w *Waited) Note(now time.Time, s Suspect, waits Waits) {
	if waits.Unknown {
		return
	}
	if w.of == nil {
		w.of = map[string]waited{}
	}
	w.of[s.Agent] = waited{s.key, s.Class, s.Since, now, waits}
}

// Forget drops all but the suspects.
func (w *Waited) Forget(suspects []Suspect) {
	is := map[string]bool{}
	for _, s := range suspects {
		is[s.Agent] = true
	}
	for name := range w.of {
		if !is[name] {
			delete(w.of, name)
		}
	}
}
