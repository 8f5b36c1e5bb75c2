package models

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/gateway/ledger"
)

const (
	// reportEvery is how often a use is reported, if it has changed.
	reportEvery = time.Minute
	// maxReports bounds the events for one agent at a time. What is left is reported the next time.
	maxReports = 8
)

// Place is an agent, and where its ledger is.
type Place struct{ Agent, Workspace, Dir string }

// Reporter emits an event for each task that used model services in the last minute, and one for what an
// agent used outside of tasks. An event has the sums of the task, or of the day, so far: one that is lost
// or repeated changes nothing. Assign the fields, then Run; Round may be called when Run has returned.
type Reporter struct {
	Book    *Book
	Agents  func() []Place
	Publish func(api.Event)
	Log     *slog.Logger
	Now     func() time.Time
	Ended   <-chan string // agents whose task has ended: they are reported on at once; nil for none

	places map[string]Place // of the last round, by agent
	told   map[string]map[string]int64
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	t := time.NewTicker(reportEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.Round()
		case name := <-r.Ended:
			r.one(name)
		case <-ctx.Done():
			return
		}
	}
}

// Round reports what has changed since the last round, also of agents that were removed since. The first
// round reports all of the last two days.
func (r *Reporter) Round() {
	now, places := map[string]Place{}, maps.Clone(r.places)
	for _, p := range r.Agents() {
		now[p.Agent] = p
	}
	if places == nil {
		places = map[string]Place{}
	}
	maps.Copy(places, now)
	told := map[string]map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(places)) {
		told[name] = r.agent(places[name], r.told[name])
	}
	maps.DeleteFunc(told, func(name string, _ map[string]int64) bool { _, ok := now[name]; return !ok })
	r.places, r.told = now, told
}

// one reports on the agent of a name, if there is one.
func (r *Reporter) one(name string) {
	all := r.Agents()
	i := slices.IndexFunc(all, func(p Place) bool { return p.Agent == name })
	if i < 0 {
		return
	}
	if r.told == nil {
		r.places, r.told = map[string]Place{}, map[string]map[string]int64{}
	}
	r.places[name], r.told[name] = all[i], r.agent(all[i], r.told[name])
}

// agent reports on one agent. before are the requests that were reported, by task or day.
func (r *Reporter) agent(p Place, before map[string]int64) (told map[string]int64) {
	type use struct {
		sum
		day, task string
		models    map[string]bool
	}
	uses, recent := map[string]*use{}, ledger.Day(r.Now().AddDate(0, 0, -1))
	err := r.Book.Rows(p.Dir, func(row ledger.Row) {
		key := row.Task
		if key == "" {
			key = row.Day
		}
		u := uses[key]
		if u == nil {
			u = &use{task: row.Task, models: map[string]bool{}}
			uses[key] = u
		}
		u.add(row)
		u.day, u.models[row.Model] = max(u.day, row.Day), true
	})
	if err != nil {
		r.Log.Warn("model counts not read", "agent", p.Agent, "err", err)
		return before
	}
	told = map[string]int64{}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(uses)) {
		u := uses[key]
		if u.day < recent {
			continue
		}
		if told[key] = before[key]; u.Requests == before[key] {
			continue
		}
		if n++; n > maxReports {
			continue
		}
		told[key] = u.Requests
		r.Publish(event(p, u.use(key), u.task, slices.Sorted(maps.Keys(u.models))))
	}
	return told
}

func event(p Place, u api.ModelUse, task string, models []string) api.Event {
	of, data := "outside of tasks on "+u.Key, map[string]any{"workspace": p.Workspace, "models": models, "requests": u.Requests, "use": u}
	if task != "" {
		of, data["task"] = "in task "+task, task
	}
	return api.Event{Type: api.EventModelUsed, Agent: p.Agent, Data: data,
		Message: fmt.Sprintf("agent %s used %s and %d tokens of model services %s so far", p.Agent, api.Count(int(u.Requests), "request"), u.Tokens(), of)}
}
