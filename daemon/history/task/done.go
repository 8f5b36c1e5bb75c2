package task

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"polis/daemon/api/wire"
	"polis/daemon/store"
)

// What an agent's shim knows about the end of a task is in two files, which outlive the shim. They are
// in the directory of the agent's log, which its sandbox does not have. Each is about one task, the
// last one.
const (
	doneFile = "done.json"
	exitFile = "exit.json"
)

type keptDone struct {
	Task string        `json:"task"`
	Done wire.TaskDone `json:"done"`
}

type keptExit struct {
	Task string        `json:"task"`
	Exit wire.TaskExit `json:"exit"`
}

// KeepDone saves that the agent whose log is in dir has ended a task itself. It is durable when
// KeepDone returns: an agent's word outlives its shim, also if polisd is away.
func KeepDone(dir, id string, done wire.TaskDone) error {
	return keep(filepath.Join(dir, doneFile), id, keptDone{Task: id, Done: done})
}

// KeepExit saves how the program of a task exited, like KeepDone.
func KeepExit(dir, id string, exit wire.TaskExit) error {
	return keep(filepath.Join(dir, exitFile), id, keptExit{Task: id, Exit: exit})
}

func keep(path, id string, v any) error {
	if err := store.Sweep(path); err != nil {
		return fmt.Errorf("keep the end of task %s: %w", id, err)
	}
	if err := store.WriteSummed(path, v); err != nil {
		return fmt.Errorf("keep the end of task %s: %w", id, err)
	}
	return nil
}

// Done returns what KeepDone saved about a task; ok is false if there is nothing about it.
func (s *Store) Done(id string) (done wire.TaskDone, ok bool, err error) {
	var k keptDone
	ok, err = s.kept(doneFile, id, &k)
	return k.Done, ok && k.Task == id, err
}

// Exit returns what KeepExit saved about a task; ok is false if there is nothing about it.
func (s *Store) Exit(id string) (exit wire.TaskExit, ok bool, err error) {
	var k keptExit
	ok, err = s.kept(exitFile, id, &k)
	return k.Exit, ok && k.Task == id, err
}

func (s *Store) kept(file, id string, v any) (ok bool, err error) {
	err = store.ReadSummed(filepath.Join(s.Dir, file), v)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the end of task %s: %w", id, err)
	}
	return true, nil
}
