package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/host/private"
	"polis/daemon/store"
)

// Bounds of what is kept of one agent: the oldest tasks that have ended go first.
const (
	MaxTasks = 200
	MaxBytes = 16 << 20
	// MaxQueued bounds the tasks that wait for their turn.
	MaxQueued = 100
)

// brief is what is known of a record without reading it.
type brief struct {
	api.TaskBrief
	ahead   bool
	retryOf string
}

// Store keeps the records of one agent's tasks, each in a file of Dir. Set Dir,
// Agent and Now, then use it.
type Store struct {
	Dir   string
	Agent string
	Now   func() time.Time

	mu   sync.Mutex
	open bool
	// sizes of the files, by number.
	sizes map[int]int64
	// briefs are of the tasks that have an end of their own.
	briefs map[int]brief
	last   int // the highest number ever given
	// unsaved are records that could not be written, and count all the same.
	unsaved map[int]api.Task
	changed chan struct{}
}

// records is the directory of the files.
func (s *Store) records() string { return filepath.Join(s.Dir, "tasks") }

func (s *Store) file(n int) string {
	return filepath.Join(s.records(), fmt.Sprintf("%08d.json", n))
}

// load reads what there is. s.mu is held.
func (s *Store) load() error {
	if s.open {
		return nil
	}
	entries, err := os.ReadDir(s.records())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the tasks of %s: %w", s.Agent, err)
	}
	s.sizes, s.unsaved, s.briefs = map[int]int64{}, map[int]api.Task{}, map[int]brief{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // a write that was cut short
			if err := os.Remove(filepath.Join(s.records(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("read the tasks of %s: %w", s.Agent, err)
			}
			continue
		}
		number, ok := strings.CutSuffix(e.Name(), ".json")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 1 {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			return fmt.Errorf("read the tasks of %s: %w", s.Agent, err)
		}
		s.sizes[n], s.last = fi.Size(), max(s.last, n)
		if t, err := s.read(n); err == nil {
			s.note(n, t)
		}
	}
	s.open = true
	return nil
}

// Create keeps a new task and gives it its ID.
func (s *Store) Create(t api.Task) (api.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return t, err
	}
	if err := private.Dir(s.records()); err != nil {
		return t, fmt.Errorf("keep a task of %s: %w", s.Agent, err)
	}
	n := s.last + 1
	t.ID, t.Agent = ID(s.Agent, n), s.Agent
	settle(&t)
	if err := s.write(n, t); err != nil {
		return t, err
	}
	s.last = n
	return t, s.prune()
}

// Update changes a record; what change leaves as it was is not written. A
// record that cannot be written is changed all the same, and written later.
func (s *Store) Update(id string, change func(*api.Task)) (api.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return api.Task{}, err
	}
	_, n, err := ParseID(id)
	if err != nil {
		return api.Task{}, err
	}
	t, err := s.read(n)
	if err != nil {
		return t, err
	}
	old, _ := json.Marshal(t) //nolint:errcheck // it was read from JSON
	change(&t)
	now, err := json.Marshal(t)
	if err != nil || string(old) == string(now) {
		return t, err
	}
	if err := s.write(n, t); err != nil {
		s.unsaved[n] = t
		s.note(n, t)
		s.notify()
		return t, err
	}
	return t, nil
}

// Flush writes what could not be written before.
func (s *Store) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.unsaved)) {
		if err := s.write(n, s.unsaved[n]); err != nil {
			return err
		}
	}
	return nil
}

// write replaces a record. s.mu is held.
func (s *Store) write(n int, t api.Task) error {
	if err := store.WriteJSON(s.file(n), t); err != nil {
		return api.Errorf(api.CodeStateNotSaved, "keep task %s: %w", t.ID, err).WithHint("free space in %s, or make it writable", s.Dir)
	}
	delete(s.unsaved, n)
	fi, err := os.Stat(s.file(n))
	if err != nil {
		return fmt.Errorf("keep task %s: %w", t.ID, err)
	}
	s.sizes[n] = fi.Size()
	s.note(n, t)
	s.notify()
	return nil
}

// note keeps the brief of a record. s.mu is held.
func (s *Store) note(n int, t api.Task) {
	if t.Outcome == api.OutcomeDelivered {
		delete(s.briefs, n) // a text, not a task
	} else if t.Via == "" {
		s.briefs[n] = brief{ahead: t.Ahead, retryOf: t.RetryOf, TaskBrief: api.TaskBrief{ID: ID(s.Agent, n), State: t.State, Outcome: t.Outcome, Result: t.Result,
			Elsewhere: t.Elsewhere, Interrupted: t.Interrupted}}
	}
}

// prune removes the oldest records that are over the bounds. s.mu is held.
func (s *Store) prune() error {
	total := int64(0)
	for _, size := range s.sizes {
		total += size
	}
	numbers := slices.Sorted(maps.Keys(s.sizes))
	for _, n := range numbers[:len(numbers)-1] {
		if len(s.sizes) <= MaxTasks && total <= MaxBytes {
			return nil
		}
		if b := s.briefs[n]; b.State == api.TaskQueued || b.State == api.TaskRunning || b.Interrupted == api.InterruptedNew || b.Interrupted == api.InterruptedKept {
			continue
		}
		if err := os.Remove(s.file(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget an old task of %s: %w", s.Agent, err)
		}
		total -= s.sizes[n]
		delete(s.sizes, n)
		delete(s.briefs, n)
	}
	return nil
}

// read returns a record. s.mu is held.
func (s *Store) read(n int) (api.Task, error) {
	if t, ok := s.unsaved[n]; ok {
		return t, nil
	}
	id := ID(s.Agent, n)
	if _, ok := s.sizes[n]; !ok {
		return api.Task{}, NotFound(id)
	}
	var t api.Task
	if err := store.ReadJSON(s.file(n), &t, s.Now()); err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			delete(s.sizes, n)
			delete(s.briefs, n)
		}
		return t, fmt.Errorf("read task %s: %w", id, err)
	}
	// The file's name counts, whatever is in it.
	t.ID, t.Agent = id, s.Agent
	return t, nil
}

// NotFound is the error of a task that is not kept.
func NotFound(id string) error {
	return api.Errorf(api.CodeNotFound, "there is no task %s", id).WithHint("polisctl tasks lists those that are kept; the oldest go first")
}

// Changed is closed at the next change of a record.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// notify wakes the waiters of Changed. s.mu is held.
func (s *Store) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
