package base

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
	"polis/internal/keylock"
)

// Config is where bases are, and whose files they contain.
type Config struct {
	// Dir contains the bases; only root may search it. It is made if it is missing.
	Dir string
	// Repo has the trees. Git runs as UID and GID, which own the files of a base.
	Repo     git.Repo
	UID, GID uint32
	// Scratch makes a directory that UID owns and can reach; the caller of Scratch removes it.
	Scratch func() (string, error)
	// InUse reports whether a base is the lower layer of a mounted overlay now; its files must not
	// change then. Nil: none is.
	InUse func(id string) (bool, error)
	Log   *slog.Logger
	Now   func() time.Time
}

// Store has the bases of one workspace. It is safe for concurrent use; one daemon has one Store for
// a directory.
type Store struct {
	cfg   Config
	locks keylock.Set // of bases, by id
}

// New returns the store of cfg.Dir. It reads nothing yet.
func New(cfg Config) *Store {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.InUse == nil {
		cfg.InUse = func(string) (bool, error) { return false, nil }
	}
	return &Store{cfg: cfg}
}

// Base is a base tree that is complete.
type Base struct {
	// ID is the object id of its git tree.
	ID string
	// Tree is the directory of its files, and Index the git index prepared for them.
	Tree, Index string
}

// record is the content of a base's record file.
type record struct {
	Version int    `json:"version"`
	Tree    string `json:"tree"`
	// Made is when the files were last written, or compared with the tree.
	Made time.Time `json:"made"`
	// Boot is the kernel's boot_id at that time; Synced is true once all files are on the disk.
	Boot   string `json:"boot"`
	Synced bool   `json:"synced"`
	// IndexBytes is the size of the index.
	IndexBytes int64 `json:"index_bytes"`
	// Took is how long the checkout took, in milliseconds.
	Took int64 `json:"took_ms"`
}

const (
	recordVersion = 1
	partial       = ".new"
	recordName    = "record"
)

func (s *Store) dir(id string) string { return filepath.Join(s.cfg.Dir, id) }

func at(dir, id string) Base {
	return Base{ID: id, Tree: filepath.Join(dir, "tree"), Index: filepath.Join(dir, "index")}
}

// At returns where a base is. It may be missing, or be made: the caller must know that it is the
// lower layer of a mount.
func (s *Store) At(id string) Base { return at(s.dir(id), id) }

// lock waits for an id.
func (s *Store) lock(ctx context.Context, id string) (func(), error) {
	unlock, err := s.locks.Lock(ctx, id)
	if err != nil {
		return nil, api.Errorf(api.CodeTimeout, "wait for the base tree %s: %w", id, err)
	}
	return unlock, nil
}

// Use calls claim with the base of a git tree, which it makes if it is missing. Until claim returns,
// Collect does not remove the base: claim must store whatever reports it as used.
func (s *Store) Use(ctx context.Context, id string, claim func(Base) error) error {
	if !git.IsOID(id) {
		return fmt.Errorf("base tree: %q is no object id", id)
	}
	done, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	b, err := s.open(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = s.make(ctx, id)
	}
	if err != nil {
		return err
	}
	return claim(b)
}

// open returns a base that exists, or an error that wraps fs.ErrNotExist. After a reboot it can take
// as long as a checkout. The lock of id is held.
func (s *Store) open(ctx context.Context, id string) (Base, error) {
	dir := s.dir(id)
	b := at(dir, id)
	r, err := s.read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, serr := os.Lstat(dir); serr != nil {
			return Base{}, err
		}
	case err != nil:
		s.cfg.Log.Warn("record of a base tree not read; the base is checked", "op", "base", "path", dir, "err", err)
	case r.Synced || r.Boot == BootID():
		return b, nil
	}
	// A crash of the machine can have lost the content of files whose names were stored.
	if _, err := s.repair(ctx, id); err != nil {
		return Base{}, err
	}
	return b, nil
}

// read reads the record of a base and compares it with what a look at the directory shows.
func (s *Store) read(id string) (record, error) {
	var r record
	dir := s.dir(id)
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return r, err
	}
	if err := store.Decode(text, &r); err != nil {
		return r, err
	}
	b := at(dir, id)
	fi, err := os.Lstat(b.Index)
	switch {
	case err != nil:
		return r, fmt.Errorf("index of the base tree: %v", err) //nolint:errorlint // the base is there: this is not ErrNotExist
	case r.Version != recordVersion || r.Tree != id:
		return r, fmt.Errorf("the record is of version %d and of tree %q", r.Version, r.Tree)
	case !fi.Mode().IsRegular() || fi.Size() != r.IndexBytes:
		return r, fmt.Errorf("the index has %d bytes, and had %d", fi.Size(), r.IndexBytes)
	}
	if fi, err := os.Lstat(b.Tree); err != nil || !fi.IsDir() {
		return r, fmt.Errorf("the directory of the files is missing: %v", err) //nolint:errorlint // as above
	}
	return r, nil
}

// BootID identifies the time since the machine started; "" if the kernel reports none, which no
// record has.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// List returns the ids of all bases, also of those that were never completed.
func (s *Store) List() ([]string, error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list base trees: %w", err)
	}
	seen := map[string]bool{}
	var out []string
	for _, e := range entries {
		id := strings.TrimSuffix(strings.TrimSuffix(e.Name(), partial), gone)
		if git.IsOID(id) && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out, nil
}

// gone is the suffix of a base that is being removed.
const gone = ".gone"

// Collect removes the bases for which used returns false. used is called while no Use of that base
// runs. It returns the ids it removed.
func (s *Store) Collect(ctx context.Context, used func(id string) (bool, error)) ([]string, error) {
	ids, err := s.List()
	var errs []error
	var removed []string
	for _, id := range ids {
		ok, rerr := s.collect(ctx, id, used)
		if ok {
			removed = append(removed, id)
		}
		errs = append(errs, rerr)
	}
	return removed, errors.Join(append(errs, err)...)
}

func (s *Store) collect(ctx context.Context, id string, used func(id string) (bool, error)) (bool, error) {
	done, err := s.lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer done()
	if err := fdtree.RemoveAll(ctx, s.dir(id)+gone); err != nil {
		return false, fmt.Errorf("remove the base tree %s: %w", id, err)
	}
	keep, err := used(id)
	if err != nil || keep {
		return false, err
	}
	// One rename makes it invalid: what is left of an interrupted removal is never taken for a base.
	if err := os.Rename(s.dir(id), s.dir(id)+gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("remove the base tree %s: %w", id, err)
	}
	err = errors.Join(fdtree.RemoveAll(ctx, s.dir(id)+gone), fdtree.RemoveAll(ctx, s.dir(id)+partial))
	if err != nil {
		return false, fmt.Errorf("remove the base tree %s: %w", id, err)
	}
	s.cfg.Log.Info("base tree removed", "op", "base", "path", s.dir(id))
	return true, nil
}
