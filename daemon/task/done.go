package task

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"polis/daemon/shim/wire"
	"polis/daemon/store"
)

// keptDone is what the file of KeepDone has.
type keptDone struct {
	Task string        `json:"task"`
	Done wire.TaskDone `json:"done"`
}

// doneFile is in the directory of an agent's log, which its sandbox does not have.
func doneFile(dir string) string { return filepath.Join(dir, "done.json") }

// KeepDone saves that the agent whose log is in dir has ended a task itself. It is durable when
// KeepDone returns: an agent's word outlives its shim, also if polisd is away. Only the last one of
// an agent is kept.
func KeepDone(dir, id string, done wire.TaskDone) error {
	path := doneFile(dir)
	if err := store.Sweep(path); err != nil {
		return fmt.Errorf("keep the end of task %s: %w", id, err)
	}
	if err := store.WriteSummed(path, keptDone{Task: id, Done: done}); err != nil {
		return fmt.Errorf("keep the end of task %s: %w", id, err)
	}
	return nil
}

// Done returns what KeepDone saved about a task; ok is false if there is nothing about it.
func (s *Store) Done(id string) (done wire.TaskDone, ok bool, err error) {
	var k keptDone
	err = store.ReadSummed(doneFile(s.Dir), &k)
	if errors.Is(err, fs.ErrNotExist) {
		return done, false, nil
	}
	if err != nil {
		return done, false, fmt.Errorf("read the end of task %s: %w", id, err)
	}
	return k.Done, k.Task == id, nil
}
