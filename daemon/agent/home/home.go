package home

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"polis/daemon/api/setting"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// Spec describes the home directory of one agent.
type Spec struct {
	Agent    string            // its name, for log messages
	Files    []config.HomeFile // what the base type declares
	Answers  []config.Answer   // likewise
	Project  string            // the project's path in the sandbox
	Owner    int               // uid of the project's owner
	Dir      string            // the agent's home on the host; it belongs to UID and GID
	Inside   string            // the path of Dir in the sandbox
	Record   string            // file of root's that says what was copied; Seed makes it
	ReadOnly string            // directory of root's for the content of read-only files; Seed makes it
	UID, GID int               // the agent's user and group
	By       git.Idents        // of the agent's commits
	// Context is the file that the program reads for its model ("": none), ContextPath the text of
	// polis in the sandbox. Only a Context that begins with ~/ is made here.
	Context, ContextPath string
	Log                  *slog.Logger
}

// Seed brings the files that the base type declares from the owner's home into the agent's home,
// and returns the mounts of those that are read-only, which are read at every start. It refreshes
// the copies as Refresh does. A file that cannot be brought is logged, and the agent starts
// without it. Seed writes the identity of the agent's commits as its .gitconfig, unless the agent has its own.
func Seed(s Spec) ([]setting.Mount, error) {
	var mounts []setting.Mount
	if home := ownersHome(s.Owner); home != "" {
		var err error
		if mounts, err = s.bring(home); err != nil {
			return nil, err
		}
	}
	return mounts, s.refreshCopies(ownersHome(s.Owner), true)
}

// Refresh brings the copies of the owner's files up to date, before a program of the agent starts.
// What the agent wrote goes nowhere but into its own home.
//
//   - A file that the agent has not is copied.
//   - If the owner's file has changed since it was copied, it is copied again, as long as the agent
//     has left its copy as it was. A file of mode credentials is copied again all the same, and the
//     agent's own is kept beside it, with ".polis-old" at the end of its name.
//   - Otherwise the agent's file stays.
//
// Then the dialogs of the agent's program are answered in the files that record the answers.
func Refresh(s Spec) error { return s.refreshCopies(ownersHome(s.Owner), false) }

// ownersHome is the home directory of a user; "" for a user without an account.
func ownersHome(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// bring stores the read-only files of the home directory home, and returns their mounts.
func (s Spec) bring(home string) (mounts []setting.Mount, err error) {
	if err := fdtree.Cleanup(s.ReadOnly); err != nil {
		return nil, err
	}
	for i, f := range s.Files {
		if f.Mode != config.HomeReadOnly {
			continue
		}
		src, err := openFile(home, f.Path, s.Owner)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			s.skip(f.Path, err)
			continue
		}
		m, err := s.storeFile(src, strconv.Itoa(i))
		if err = errors.Join(err, src.Close()); err != nil {
			return nil, fmt.Errorf("bring %s into the sandbox: %w", f.Path, err)
		}
		m.Dest = filepath.Join(s.Inside, f.Path)
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func (s Spec) skip(path string, err error) {
	s.Log.Warn("file of the agent's home not refreshed", "agent", s.Agent, "path", path, "err", err)
}
