package race

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
)

const (
	// MaxRaces bounds the records of a workspace; the oldest that ended are deleted first.
	MaxRaces = 50
	// MaxRunning bounds the races of a workspace that have not ended.
	MaxRunning = 4
)

// over reports whether nothing more becomes of a race.
func over(s api.RaceState) bool { return s == api.RaceEnded || s == api.RaceCancelled }

// done reports whether nothing more becomes of a racer.
func done(s api.RacerState) bool {
	return s == api.RacerEnded || s == api.RacerCancelled || s == api.RacerFailed
}

// check refuses a request that no race can be made of.
func check(req api.RaceRequest) error {
	bad := func(format string, args ...any) error { return api.Errorf(api.CodeBadRequest, format, args...) }
	n := len(req.Agents) * max(req.N, 1)
	switch {
	case strings.TrimSpace(req.Task) == "":
		return bad("task is empty")
	case len(req.Agents) == 0:
		return bad("agents is empty: a race needs base types")
	case req.N < 0 || n > api.MaxRacers || len(req.Agents) > api.MaxRacers:
		return bad("the race has %s: at most %d", api.Count(n, "agent"), api.MaxRacers)
	case len(req.Check) > 16<<10 || strings.ContainsRune(req.Check, 0):
		return bad("check has %d bytes: at most %d, no NUL", len(req.Check), 16<<10)
	case req.Seconds < 0 || req.Seconds > 7*24*3600 || req.CheckSeconds < 0 || req.CheckSeconds > 24*3600:
		return bad("seconds and check_seconds must be at most a week and a day")
	case req.First && req.Judge:
		return bad("first and judge cannot be used together: the first that passes wins")
	}
	return nil
}

// record returns the record of a new race. r.mu is held.
func (r *Runner) record(ws, base string, req api.RaceRequest) (api.Race, error) {
	now := r.Now().UTC()
	running := 0
	for _, x := range r.races {
		if x.Workspace == ws && !over(x.State) {
			running++
		}
	}
	if running >= MaxRunning {
		return api.Race{}, api.Errorf(api.CodeQuota, "workspace %s has %s: at most %d", ws, api.Count(running, "race"), MaxRunning).WithHint("polisctl races cancel ID ends one")
	}
	at := now.Unix()
	for r.find(fmt.Sprintf("r%x", at)) != nil {
		at++
	}
	race := api.Race{ID: fmt.Sprintf("r%x", at), Workspace: ws, Request: req, State: api.RaceRunning, Base: base, CreatedAt: now.Truncate(time.Millisecond)}
	for i, base := range req.Agents {
		for n := range max(req.N, 1) {
			race.Racers = append(race.Racers, api.Racer{Agent: fmt.Sprintf("%s-%s-%d", race.ID, slug(base), i*max(req.N, 1)+n+1), BaseType: base, State: api.RacerWaiting})
		}
	}
	return race, nil
}

// slug is a base type as a part of an agent's name.
func slug(base string) string {
	w := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, base)
	return w[:min(len(w), 12)]
}

// find returns a race; nil if there is none. r.mu is held.
func (r *Runner) find(id string) *api.Race {
	for i := range r.races {
		if r.races[i].ID == id {
			return &r.races[i]
		}
	}
	return nil
}

// List returns the races of a workspace, or of all with "", oldest first.
func (r *Runner) List(workspace string) []api.Race {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []api.Race{}
	for _, x := range r.races {
		if workspace == "" || x.Workspace == workspace {
			out = append(out, clone(x))
		}
	}
	return out
}

func clone(x api.Race) api.Race {
	x.Racers = slices.Clone(x.Racers)
	return x
}

// trim deletes the oldest races of a workspace that have ended. r.mu is held.
func (r *Runner) trim(ws string) {
	n := 0
	for _, x := range r.races {
		if x.Workspace == ws {
			n++
		}
	}
	r.races = slices.DeleteFunc(r.races, func(x api.Race) bool {
		drop := n > MaxRaces && x.Workspace == ws && over(x.State)
		if drop {
			n--
		}
		return drop
	})
}

// change changes a race, wakes those that wait for it, and saves it.
func (r *Runner) change(id string, f func(*api.Race)) api.Race {
	r.mu.Lock()
	x := r.find(id)
	if x == nil {
		r.mu.Unlock()
		return api.Race{}
	}
	f(x)
	now := clone(*x)
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	if err := r.Save(now.Workspace); err != nil {
		r.Log.Warn("race not saved; it is saved with the next change", "race", id, "err", err)
	}
	return now
}

// racer changes one racer.
func (r *Runner) racer(id string, i int, f func(*api.Racer)) api.Racer {
	return r.change(id, func(x *api.Race) { f(&x.Racers[i]) }).Racers[i]
}
