package task

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
)

// oldLog is where polisd logged tasks before they had records: a JSON object a
// line. It is read and never written.
const oldLog = "tasks.log"

// Last is the task that runs, or the last one that does not wait, with the number of those that wait;
// nil if there was none.
func (s *Store) Last() (*api.TaskBrief, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return nil, err
	}
	var last *api.TaskBrief
	queued := 0
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(s.briefs))) {
		b := s.briefs[n]
		switch {
		case b.State == api.TaskQueued:
			queued++
		case last == nil, b.State == api.TaskRunning: // one that waited can begin after newer ones
			last = &b.TaskBrief
		}
	}
	if last == nil && queued > 0 {
		last = &api.TaskBrief{State: api.TaskQueued, Outcome: api.OutcomeQueued, Result: "queued"}
	}
	if last != nil {
		last.Queued = queued
	}
	return last, nil
}

// In returns the IDs of the tasks in a state, the oldest first; of those that wait, in the order in which
// they begin: the retries of lost ones, the texts of persons, the others.
func (s *Store) In(state api.TaskState) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return nil, err
	}
	var ids, ahead, retries []string
	for _, n := range slices.Sorted(maps.Keys(s.briefs)) {
		switch b := s.briefs[n]; {
		case b.State != state:
		case b.ahead && b.retryOf != "" && state == api.TaskQueued:
			retries = append(retries, ID(s.Agent, n))
		case b.ahead && state == api.TaskQueued:
			ahead = append(ahead, ID(s.Agent, n))
		default:
			ids = append(ids, ID(s.Agent, n))
		}
	}
	return slices.Concat(retries, ahead, ids), nil
}

// Interrupted returns the IDs of the tasks at a stage of their interruption, the oldest first.
func (s *Store) Interrupted(at api.TaskInterruption) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range slices.Sorted(maps.Keys(s.briefs)) {
		if s.briefs[n].Interrupted == at {
			ids = append(ids, ID(s.Agent, n))
		}
	}
	return ids, nil
}

// RetryOf returns the ID of the first task that does the task again; "" if there is none.
func (s *Store) RetryOf(id string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return "", err
	}
	for _, n := range slices.Sorted(maps.Keys(s.briefs)) {
		if s.briefs[n].retryOf == id {
			return ID(s.Agent, n), nil
		}
	}
	return "", nil
}

// Get returns one record.
func (s *Store) Get(id string) (api.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return api.Task{}, err
	}
	_, n, err := ParseID(id)
	if err != nil {
		return api.Task{}, err
	}
	return s.read(n)
}

// List returns at most limit of the newest records that keep accepts, the oldest
// first. A record that cannot be read is left out.
func (s *Store) List(limit int, keep func(api.Task) bool) ([]api.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return nil, err
	}
	out := []api.Task{}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(s.sizes))) {
		if len(out) >= limit {
			break
		}
		if t, err := s.read(n); err == nil && (keep == nil || keep(t)) {
			out = append(out, short(t))
		}
	}
	slices.Reverse(out)
	if len(out) >= limit || len(s.sizes) >= MaxTasks {
		return out, nil
	}
	old, err := s.readOld(keep)
	return append(old[max(0, len(old)-(limit-len(out))):], out...), err
}

// maxListed bounds an agent's answer in a list, in bytes.
const maxListed = 500

// short is a record as lists have it.
func short(t api.Task) api.Task {
	t.Steps = nil
	if t.Report != nil {
		r := *t.Report
		r.Answer, t.Report = strings.ToValidUTF8(api.Shorten(r.Answer, maxListed), ""), &r
	}
	return t
}

// readOld reads the log of a polisd that kept no records.
func (s *Store) readOld(keep func(api.Task) bool) ([]api.Task, error) {
	f, err := os.Open(filepath.Join(s.Dir, oldLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the task log of %s: %w", s.Agent, err)
	}
	defer f.Close()
	var out []api.Task
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 2<<20)
	for sc.Scan() {
		var t api.Task
		// A line cut short by a crash is skipped, the others count.
		if json.Unmarshal(sc.Bytes(), &t) == nil && (keep == nil || keep(t)) {
			out = append(out, t)
		}
		if len(out) > MaxTasks {
			out = out[1:]
		}
	}
	if err := sc.Err(); err != nil {
		return out, fmt.Errorf("read the task log of %s: %w", s.Agent, err)
	}
	return out, nil
}

// Exists reports whether the agent with its logs in dir has the record of a task.
func Exists(dir, id string) bool {
	_, n, err := ParseID(id)
	if err != nil {
		return false
	}
	_, err = os.Lstat((&Store{Dir: dir}).file(n))
	return !errors.Is(err, fs.ErrNotExist)
}
