package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/api"
)

// LoadState reads the state of a workspace from path. A missing file is an empty state. A corrupt
// file is renamed and the backup is used; the worktrees and the living shims supply the rest. lost
// then reports the damage; it is "" otherwise. On an error the file can be intact but unreadable:
// the caller must not draw conclusions from it, and must not overwrite it.
func LoadState(workspace, path string, now time.Time, log *slog.Logger) (st State, lost string, err error) {
	sweep(path, log)
	restored, err := ReadKept(path, &st, now, func(s State) error {
		if s.Version < 1 {
			return errors.New("it has no version")
		}
		return nil
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return st, "", nil
	case errors.Is(err, ErrCorrupt):
		lost = fmt.Sprintf("%s: workspace %s: %v; rebuilt from its worktrees and shims", api.CodeStateCorrupt, workspace, err)
		if restored {
			lost += " and the state before"
		}
		for i := range st.Agents {
			// The lost state knew whether the agent became complete, or was stopped since. An
			// agent with a shim is adopted. Others are neither started nor removed as incomplete.
			if st.Agents[i].Status != api.StatusError {
				st.Agents[i].Status, st.Agents[i].StatusReason = api.StatusStopped, ""
			}
		}
		return st, lost, nil
	case errors.Is(err, ErrNewer):
		return st, "", api.Errorf(api.CodeStateCorrupt, "the state of workspace %s: %w", workspace, err).WithHint("install that polisd again")
	case err != nil:
		return st, "", api.Errorf(api.CodeInternal, "read the state of workspace %s: %w", workspace, err)
	case st.Version > StateVersion:
		return st, "", api.Errorf(api.CodeStateCorrupt, "the state of workspace %s is of version %d, this polisd knows %d", workspace, st.Version, StateVersion).
			WithHint("it was written by a newer polisd: install that again")
	}
	return st, "", nil
}

func sweep(path string, log *slog.Logger) {
	if err := Sweep(path); err != nil {
		log.Warn("temporary file of a crash not removed", "path", path, "err", err)
	}
}

// registryFile returns the path of the list of workspaces of the daemon whose workspaces_dir dir is.
func registryFile(dir string) string { return filepath.Join(dir, "workspaces.json") }

// LoadRegistry reads the list of workspaces of the daemon whose workspaces_dir dir is. A corrupt
// list is renamed, and rebuilt from the previous list and from the workspaces in dir. The list is
// then usable, and the error, an ErrCorrupt, reports the damage.
func LoadRegistry(dir string, now time.Time, log *slog.Logger) (Registry, error) {
	path := registryFile(dir)
	reg := Registry{Version: 1, Workspaces: map[string]string{}}
	sweep(path, log)
	_, err := ReadKept(path, &reg, now, func(r Registry) error {
		if r.Workspaces == nil {
			return errors.New("it has no workspaces")
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return reg, nil
	}
	if !errors.Is(err, ErrCorrupt) {
		return reg, err
	}
	dirs, gerr := filepath.Glob(filepath.Join(dir, "*", ".polis"))
	for _, p := range dirs {
		reg.Workspaces[filepath.Base(filepath.Dir(p))] = filepath.Dir(p)
	}
	err = api.Errorf(api.CodeStateCorrupt, "list of workspaces: %w", err).WithHint("it was rebuilt with %d workspaces; polisctl up --repo PATH WORKSPACE adds one that is missing", len(reg.Workspaces))
	return reg, errors.Join(err, gerr, SaveRegistry(dir, reg))
}

// SaveRegistry writes the list of workspaces.
func SaveRegistry(dir string, reg Registry) error {
	if err := WriteKept(registryFile(dir), reg); err != nil {
		return api.Errorf(api.CodeStateNotSaved, "list of workspaces: %w", err).WithHint("free space in %s, or make it writable", dir)
	}
	return nil
}
