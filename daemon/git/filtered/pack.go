package filtered

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// maxPacks is from how many packs on they are joined into one.
const maxPacks = 40

// pack adds objects of from to the store.
func (s *objectStore) pack(ctx context.Context, from git.Repo, ids []string) (err error) {
	if len(ids) == 0 {
		return nil
	}
	tmp, err := os.MkdirTemp(s.k.Dir, unfinished)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	inner := filepath.Join(tmp, "pack")
	if err := os.Mkdir(inner, 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		for _, d := range []string{tmp, inner} {
			if err := os.Lchown(d, int(from.Runner.UID), int(from.Runner.GID)); err != nil {
				return err
			}
		}
	}
	made, err := from.PackIn(ctx, tmp, ids)
	if err != nil || made == "" {
		return err
	}
	return s.take(made, from)
}

// take moves a pack into the store. The index comes last: a git that knows it
// finds the rest.
func (s *objectStore) take(made string, from git.Repo) error {
	to := filepath.Join(s.objects(), "pack", filepath.Base(made))
	if err := os.WriteFile(to+".promisor", nil, 0o444); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, ext := range []string{".pack", ".rev", ".idx"} {
		err := s.own(made+ext, from.Runner.UID)
		if err == nil {
			err = os.Rename(made+ext, to+ext)
		}
		if err != nil && (ext != ".rev" || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("take a pack: %w", err)
		}
	}
	return syncDir(filepath.Dir(to))
}

// own makes a file that git wrote as uid the daemon's, and durable. That user can exchange the file:
// a second name could be that of a file which must not become readable to all.
func (s *objectStore) own(path string, uid uint32) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || os.Geteuid() == 0 && st.Uid != uid {
		return fmt.Errorf("%s is not the file that git wrote (mode %o, uid %d, %d names)", path, st.Mode, st.Uid, st.Nlink)
	}
	if err := errors.Join(f.Chmod(0o444), f.Chown(os.Geteuid(), os.Getegid())); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *objectStore) objects() string { return filepath.Join(s.dir, "objects") }

// packs are the names of the packs that git can read, without extension.
func (s *objectStore) packs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.objects(), "pack"))
	var out []string
	for _, e := range entries {
		if stem, ok := strings.CutSuffix(e.Name(), ".idx"); ok {
			out = append(out, stem)
		}
	}
	return out, err
}

// compact joins many packs into one. A git that has an old one open continues
// reading it; one that misses it looks for new ones.
func (s *objectStore) compact(ctx context.Context) error {
	old, err := s.packs()
	if err != nil || len(old) < maxPacks {
		return err
	}
	r := git.Repo{Runner: s.k.Repo.Runner, Dir: s.k.Repo.Dir, Objects: s.objects()}
	ids, err := r.All(ctx)
	if err != nil {
		return err
	}
	if err := s.pack(ctx, r, ids); err != nil {
		return err
	}
	now, err := s.packs()
	if err != nil {
		return err
	}
	if len(now) != len(old)+1 {
		return nil // the joined one is one of them
	}
	var errs []error
	for _, stem := range old {
		for _, ext := range []string{".idx", ".rev", ".pack", ".promisor"} {
			if err := os.Remove(filepath.Join(s.objects(), "pack", stem+ext)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
