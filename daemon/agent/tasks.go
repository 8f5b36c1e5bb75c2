package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"polis/daemon/api"
)

// The task log is one JSON object per line; when it is full, the older half
// is kept as tasks.log.1.
const (
	taskLog      = "tasks.log"
	maxTaskLog   = 4 << 20
	maxTasksRead = 1000
)

// logTask appends to the agent's task log (property 25).
func (m *Manager) logTask(a *Agent, t api.Task) error {
	dir := a.WS.Root.Logs(a.Name())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return api.Errorf(api.CodeInternal, "write task log: %w", err)
	}
	path := filepath.Join(dir, taskLog)
	if fi, err := os.Stat(path); err == nil && fi.Size() > maxTaskLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return api.Errorf(api.CodeInternal, "rotate task log: %w", err)
		}
	}
	b, err := json.Marshal(t)
	if err != nil {
		return api.Errorf(api.CodeInternal, "write task log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return api.Errorf(api.CodeInternal, "write task log: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return api.Errorf(api.CodeInternal, "write task log: %w", err)
	}
	return nil
}

// Tasks returns the last tasks of an agent, oldest first.
func (m *Manager) Tasks(name string) ([]api.Task, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(a.WS.Root.Logs(name), taskLog))
	if errors.Is(err, os.ErrNotExist) {
		return []api.Task{}, nil
	}
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "read task log: %w", err)
	}
	defer f.Close()
	out := []api.Task{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 2<<20)
	for sc.Scan() {
		var t api.Task
		// A line cut short by a crash is skipped, the others count.
		if json.Unmarshal(sc.Bytes(), &t) == nil {
			out = append(out, t)
		}
		if len(out) > maxTasksRead {
			out = out[1:]
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read task log: %w", err)
	}
	return out, nil
}

// LogDir is where the agent's output log is.
func (m *Manager) LogDir(name string) (string, error) {
	a, err := m.lookup(name)
	if err != nil {
		return "", err
	}
	return a.WS.Root.Logs(name), nil
}
