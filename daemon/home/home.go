package home

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/setting"
	"polis/fusefs/fdtree"
)

// Spec describes the home directory of one agent.
type Spec struct {
	Agent    string            // its name, for log messages
	Files    []config.HomeFile // what the base type declares
	Owner    int               // uid of the project's owner
	Dir      string            // the agent's home on the host; it belongs to UID and GID
	Inside   string            // the path of Dir in the sandbox
	ReadOnly string            // directory of root's for the content of read-only files; Seed makes it
	UID, GID int               // the agent's user and group
	Name     string            // author of the agent's commits
	Email    string            // likewise
	Log      *slog.Logger
}

// Seed brings the files that the base type declares from the owner's home into the agent's home,
// and returns the mounts of those that are read-only. A file of mode copy is copied once: the
// agent's changes stay its own, and later starts keep them. A read-only file is read at every
// start. A file that cannot be brought is logged, and the agent starts without it. Seed writes
// a .gitconfig with the author if there is none.
func Seed(s Spec) ([]setting.Mount, error) {
	var mounts []setting.Mount
	if u, err := user.LookupId(strconv.Itoa(s.Owner)); err == nil { // a user without an account has no home
		if mounts, err = s.bring(u.HomeDir); err != nil {
			return nil, err
		}
	}
	return mounts, s.seedIdentity()
}

// bring is Seed without the identity, from the home directory home.
func (s Spec) bring(home string) (mounts []setting.Mount, err error) {
	if err := fdtree.Cleanup(s.ReadOnly); err != nil {
		return nil, err
	}
	for i, f := range s.Files {
		src, err := openFile(home, f.Path, s.Owner)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			s.skip(f, err)
			continue
		}
		if f.Mode == config.HomeReadOnly {
			var m setting.Mount
			m, err = s.storeFile(src, strconv.Itoa(i))
			m.Dest = filepath.Join(s.Inside, f.Path)
			mounts = append(mounts, m)
		} else if cerr := s.copyFile(src, f.Path); cerr != nil {
			s.skip(f, cerr) // an agent that left an obstacle there must still start
		}
		if err = errors.Join(err, src.Close()); err != nil {
			return nil, fmt.Errorf("bring %s into the sandbox: %w", f.Path, err)
		}
	}
	return mounts, nil
}

func (s Spec) skip(f config.HomeFile, err error) {
	s.Log.Warn("file of the owner's home not brought into the sandbox", "agent", s.Agent, "path", f.Path, "err", err)
}

// seedIdentity makes commits possible if neither the user nor the project has an identity.
func (s Spec) seedIdentity() error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return fmt.Errorf("git identity: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(".gitconfig", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("git identity: %w", err)
	}
	_, err = fmt.Fprintf(f, "[user]\n\tname = %s\n\temail = %s\n", git.QuoteConfig(s.Name), git.QuoteConfig(s.Email))
	return errors.Join(err, f.Chown(s.UID, s.GID), f.Close())
}
