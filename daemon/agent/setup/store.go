package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// Record is the content of a result's record file.
type Record struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Key     string `json:"key"`
	// Tree is the git tree of the run.
	Tree string    `json:"tree"`
	Run  string    `json:"run"`
	Made time.Time `json:"made"`
	Took int64     `json:"took_ms"`
	// Bytes is what the files take on the disk; Sum is their checksum, Compared when that was last
	// computed.
	Bytes    int64     `json:"bytes"`
	Files    int64     `json:"files"`
	Sum      string    `json:"sum"`
	Compared time.Time `json:"compared"`
	// Damaged describes the damage that Verify found; new agents do not get such a result.
	Damaged string `json:"damaged,omitempty"`
	// Outputs are the topmost names, at most 256 of them. Dropped is how many names that the command
	// wrote are not part of the result, Drops some of them.
	Outputs []string `json:"outputs"`
	Dropped int      `json:"dropped,omitempty"`
	Drops   []string `json:"drops,omitempty"`
	Log     string   `json:"log"`
}

const (
	recordVersion = 1
	recordName    = "record"
	treeName      = "tree"
	running       = ".new"  // suffix of a run
	gone          = ".gone" // suffix of a result that is being removed
	keyLength     = 40      // of the key in an id
)

var idRE = regexp.MustCompile(`^([0-9a-f]{40})-([1-9][0-9]{0,8})$`)

// Store has the results of one workspace. Set the fields, then call NewStore's methods; one daemon has
// one Store for a directory.
type Store struct {
	dir      string
	uid, gid int
	log      *slog.Logger
	now      func() time.Time
	lock     chan struct{} // one token
}

// NewStore returns the store of dir, which is made when it is needed. The files belong to uid and gid.
func NewStore(dir string, uid, gid int, log *slog.Logger) *Store {
	return &Store{dir: dir, uid: uid, gid: gid, log: log, now: time.Now, lock: make(chan struct{}, 1)}
}

func (s *Store) acquire(ctx context.Context) (release func(), err error) {
	select {
	case s.lock <- struct{}{}:
		return func() { <-s.lock }, nil
	case <-ctx.Done():
		return nil, api.Errorf(api.CodeTimeout, "wait for the results of setup commands: %w", context.Cause(ctx))
	}
}

// Results returns the complete results, the latest first.
func (s *Store) Results() ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the results of setup commands: %w", err)
	}
	var out []Record
	for _, e := range entries {
		if !idRE.MatchString(e.Name()) {
			continue
		}
		if r, err := s.read(e.Name()); err == nil {
			out = append(out, r)
		} else {
			s.log.Warn("record of a setup not read; new agents do not get its files", "op", "setup", "path", s.path(e.Name()), "err", err)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int { return b.Made.Compare(a.Made) })
	return out, nil
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id) }

func (s *Store) read(id string) (r Record, err error) {
	if err := store.ReadSummed(filepath.Join(s.path(id), recordName), &r); err != nil {
		return r, err
	}
	if r.Version != recordVersion || r.ID != id || !strings.HasPrefix(id, r.Key[:min(len(r.Key), keyLength)]) {
		return r, fmt.Errorf("the record is of version %d and of %q", r.Version, api.Shorten(r.ID, 80))
	}
	_, err = s.Tree(id)
	return r, err
}

// Tree returns the directory of the files of a result, also of a damaged one.
func (s *Store) Tree(id string) (string, error) {
	if !idRE.MatchString(id) {
		return "", fmt.Errorf("%q is no result of a setup command", api.Shorten(id, 80))
	}
	tree := filepath.Join(s.path(id), treeName)
	fi, err := os.Lstat(tree)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "open", Path: tree, Err: unix.ENOTDIR}
	}
	return tree, err
}

// Current returns the latest result of a key that is not damaged; nil if there is none.
func (s *Store) Current(key string) (*Record, error) {
	all, err := s.Results()
	for i, r := range all {
		if r.Key == key && r.Damaged == "" {
			return &all[i], err
		}
	}
	return nil, err
}

// Claim calls claim with the current result of a key, and reports whether there was one. Until claim
// returns, Collect does not remove it.
func (s *Store) Claim(ctx context.Context, key string, claim func(Record) error) (bool, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	r, err := s.Current(key)
	if r == nil || err != nil {
		return false, err
	}
	return true, claim(*r)
}

// begin makes the directory of a run.
func (s *Store) begin(key string) (id, dir string, err error) {
	if err := private.Dir(s.dir); err != nil {
		return "", "", err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return "", "", err
	}
	last := 0
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), running), gone)
		if m := idRE.FindStringSubmatch(name); m != nil && m[1] == key[:keyLength] {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return "", "", err
			}
			last = max(last, n)
		}
	}
	id = fmt.Sprintf("%s-%d", key[:keyLength], last+1)
	dir = s.path(id) + running
	return id, dir, os.Mkdir(dir, 0o700)
}

// finish makes a run a result. All that was written is on the disk before the record is.
func (s *Store) finish(ctx context.Context, r Record) error {
	dir := s.path(r.ID) + running
	if err := syncFS(dir); err != nil {
		return err
	}
	if err := store.WriteSummed(filepath.Join(dir, recordName), r); err != nil {
		return err
	}
	failpoint.Hit("setup:recorded")
	for _, name := range []string{"home", "scratch", "upper", "work", "merged", "shown", "base"} {
		if err := fdtree.RemoveAll(ctx, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, s.path(r.ID)); err != nil {
		return err
	}
	failpoint.Hit("setup:renamed")
	return syncDir(s.dir)
}

func syncFS(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
