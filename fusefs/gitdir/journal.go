package gitdir

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxJournal is the size in bytes at which a journal is rewritten.
const maxJournal = 64 << 10

// identity identifies a file by inode number and birth time: file systems reuse inode numbers at
// once.
type identity struct {
	ino   uint64
	birth unix.StatxTimestamp
}

func (i identity) zero() bool { return i.ino == 0 }

func identify(dirfd int, path string, flags int) (identity, error) {
	var st unix.Statx_t
	if err := unix.Statx(dirfd, path, flags|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return identity{}, err
	}
	return identity{st.Ino, st.Btime}, nil
}

// journal records the lock files of this mount on disk, so that those of a killed server can be
// distinguished from those of other mounts. Lines of removed files are harmless. The journal is
// emptied when no lock file is left.
type journal struct {
	mu   sync.Mutex
	f    *os.File
	size int64
}

func openJournal(path string) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal of lock files: %w", err)
	}
	return &journal{f: f}, nil
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	return j.f.Close()
}

func line(f *lockFile, own string) string {
	return fmt.Sprintf("%d %d %d.%09d %s\n", Route(f.path, own), f.made.ino, f.made.birth.Sec, f.made.birth.Nsec, f.path)
}

// add records a lock file that exists now.
func (j *journal) add(g *Guard, f *lockFile) {
	if j.f == nil || !f.journaled() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size > maxJournal {
		j.rewrite(g)
	}
	j.write(g, line(f, g.cfg.Worktree))
}

// drop empties the journal when the last lock file is removed.
func (j *journal) drop(g *Guard) {
	if j.f == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size > 0 {
		g.mu.Lock()
		left := len(g.locks)
		g.mu.Unlock()
		if left == 0 {
			j.rewrite(g)
		}
	}
}

// rewrite writes only the lines of existing lock files. j.mu is held.
func (j *journal) rewrite(g *Guard) {
	var b strings.Builder
	g.mu.Lock()
	for _, f := range g.locks {
		if !f.made.zero() && f.journaled() {
			b.WriteString(line(f, g.cfg.Worktree))
		}
	}
	g.mu.Unlock()
	if err := j.f.Truncate(0); err != nil {
		g.cfg.Log.Warn("journal of lock files not emptied", "err", err)
		return
	}
	j.size = 0
	if b.Len() > 0 {
		j.write(g, b.String())
	}
}

func (j *journal) write(g *Guard, s string) {
	n, err := j.f.WriteAt([]byte(s), j.size)
	j.size += int64(n)
	if err != nil {
		g.cfg.Log.Warn("journal of lock files not written: after a crash they must be removed by hand", "err", err)
	}
}

// Recover removes the lock files that a dead server has left, according to its journal, and
// returns their names. roots are the shared directory and the agent's own part. No process of the
// agent may be running.
func Recover(journalPath string, roots ...string) (cleared []string, err error) {
	f, err := os.OpenFile(journalPath, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal of lock files: %w", err)
	}
	defer f.Close()
	var fds []int
	defer func() {
		for _, fd := range fds {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	for _, r := range roots {
		fd, err := unix.Open(r, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("remove stale locks: open %s: %w", r, err)
		}
		fds = append(fds, fd)
	}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		path, err := recoverLine(sc.Text(), fds)
		if err != nil {
			return cleared, fmt.Errorf("remove stale lock %s: %w", path, err)
		}
		if path != "" {
			cleared = append(cleared, path)
		}
	}
	if err := sc.Err(); err != nil {
		return cleared, fmt.Errorf("journal of lock files: %w", err)
	}
	return cleared, f.Truncate(0)
}

// recoverLine removes the file of one line if it is still that file.
func recoverLine(text string, fds []int) (string, error) {
	part := strings.SplitN(text, " ", 4)
	var root int
	var id identity
	if len(part) != 4 {
		return "", nil // an incomplete line: its write was interrupted
	}
	if _, err := fmt.Sscanf(strings.Join(part[:3], " "), "%d %d %d.%d", &root, &id.ino, &id.birth.Sec, &id.birth.Nsec); err != nil || root < 0 || root >= len(fds) {
		return "", nil //nolint:nilerr // as above
	}
	return removeIf(fds[root], part[3], id)
}

// removeIf unlinks path below root if it still has that identity.
func removeIf(root int, path string, id identity) (string, error) {
	dir, base := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, base = path[:i], path[i+1:]
	}
	fd, err := unix.Openat2(root, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return "", ignoreAbsent(err)
	}
	defer unix.Close(fd)
	now, err := identify(fd, base, 0)
	if err != nil || now != id {
		return "", ignoreAbsent(err)
	}
	if err := unix.Unlinkat(fd, base, 0); err != nil {
		return "", ignoreAbsent(err)
	}
	return path, nil
}

func ignoreAbsent(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return nil // missing, or not a name below the directory
		}
	}
	return err
}
