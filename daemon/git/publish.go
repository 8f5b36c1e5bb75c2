package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An agent's new objects are in a directory of the agent's own until a ref reaches them. So no
// other agent sees objects that were only added, stashed or discarded.

// ObjectDir returns the directory to which git writes the repository's new objects.
func (r Repo) ObjectDir() string {
	if r.Objects != "" {
		return r.Objects
	}
	return filepath.Join(r.Dir, "objects")
}

// Own returns the repository as an agent's git sees it: git writes new objects to the directory
// own, and reads own first. The order matters: objects move from own to the repository and never
// back, so a reader that looks in this order finds each.
func (r Repo) Own(own string) Repo {
	r.Alternates = append([]string{r.ObjectDir()}, r.Alternates...)
	r.Objects = own
	return r
}

// Publish checks, as Complete, what is in the repository or in own, and moves what is only in own
// to the repository. After it returns nil, refs can point to the names. If it is interrupted, some
// objects have moved, which is harmless. moved is the number of files that left own.
func (r Repo) Publish(ctx context.Context, own string, revs ...string) (moved int, err error) {
	return r.publish(ctx, own, revs, true)
}

// PublishKept is Publish that keeps the objects in own as well: the files have two names.
func (r Repo) PublishKept(ctx context.Context, own string, revs ...string) error {
	_, err := r.publish(ctx, own, revs, false)
	return err
}

func (r Repo) publish(ctx context.Context, own string, revs []string, moves bool) (moved int, err error) {
	with := r.Own(own)
	ids, err := with.reach(ctx, true, revs)
	if err != nil {
		return 0, err
	}
	return r.take(ctx, with, ids, moves)
}

// Borrow copies objects from own to the repository to, namely those that revs reach and the refs
// of r do not. They then no longer depend on own. The alternates of to must contain the other
// objects of r.
func (r Repo) Borrow(ctx context.Context, to Repo, own string, revs ...string) error {
	from := Repo{Runner: to.Runner, Dir: r.Dir, Objects: own, Alternates: []string{to.ObjectDir(), r.ObjectDir()}}
	ids, err := from.reach(ctx, true, revs)
	if err != nil {
		return err
	}
	_, err = to.take(ctx, from, ids, false)
	return err
}

// take moves or links the objects ids from from.Objects to the repository. It does not check the
// files: they were checked when they were written. It returns the number of moved files.
func (r Repo) take(ctx context.Context, from Repo, ids []string, moves bool) (int, error) {
	t := taker{r: r, moves: moves}
	defer t.close()
	if err := t.open(from.Objects); err != nil {
		return 0, fmt.Errorf("publish objects: %w", err)
	}
	var rest []string
	for _, id := range ids {
		if ctx.Err() != nil {
			return t.moved, context.Cause(ctx)
		}
		there, err := t.one(id)
		if err != nil {
			return t.moved, fmt.Errorf("publish object %s: %w", id, err)
		}
		if !there {
			rest = append(rest, id)
		}
	}
	return t.moved, t.packed(ctx, from, rest)
}

// LinkLoose gives the loose objects ids of from.Objects a second name in the repository, and returns
// the ids that from has no such file of. It does not check the files: they were checked when they were
// written.
func (r Repo) LinkLoose(ctx context.Context, from Repo, ids []string) (rest []string, err error) {
	t := taker{r: r}
	defer t.close()
	if err := t.open(from.Objects); err != nil {
		return nil, fmt.Errorf("link objects: %w", err)
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		there, err := t.one(id)
		if err != nil {
			return nil, fmt.Errorf("link object %s: %w", id, err)
		}
		if !there {
			rest = append(rest, id)
		}
	}
	return rest, nil
}

// taker moves files between two object directories, below which it follows no link.
type taker struct {
	r        Repo
	moves    bool // remove the old name; else the files have two names
	from, to int
	opened   []int
	moved    int  // files
	copies   bool // some files cannot be moved and are copied
}

func (t *taker) open(own string) error {
	for fd, dir := range map[*int]string{&t.from: own, &t.to: t.r.ObjectDir()} {
		n, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		*fd, t.opened = n, append(t.opened, n)
	}
	return nil
}

func (t *taker) close() {
	for _, fd := range t.opened {
		_ = unix.Close(fd) //nolint:errcheck // O_PATH
	}
}

var beneath = uint64(unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS)

// one moves one object and reports whether the receiver has its file now.
func (t *taker) one(id string) (bool, error) {
	dir, name := id[:2], id[2:]
	from, err := unix.Openat2(t.from, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: beneath})
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, errors.New("it is not a regular file")
	}
	for range dirTries {
		there, err := t.into(from, dir, name)
		if !errors.Is(err, errNoDir) {
			return there, err
		}
	}
	return false, fmt.Errorf("objects/%s is removed whenever it is made: %w", dir, unix.ENOENT)
}

// dirTries is how often a directory is made for one object: a git of the repository's owner that
// packs objects removes those that it finds empty.
const dirTries = 100

// errNoDir reports that the receiver's directory was removed before it got the file.
var errNoDir = errors.New("the directory was removed")

// into moves a file of the directory from to one of the receiver's directories, and reports whether it
// is there. It is not if there is none any more: what both had may be in a pack now, and an agent may
// remove its own files at any moment.
func (t *taker) into(from int, dir, name string) (bool, error) {
	to, err := t.dir(dir)
	if err != nil {
		return false, err
	}
	defer unix.Close(to)
	switch err := t.file(from, name, to); {
	case errors.Is(err, unix.EEXIST):
		if err := touch(to, name); err != nil {
			return false, ignore(err, unix.ENOENT)
		}
		return true, t.drop(from, name)
	case errors.Is(err, unix.ENOENT):
		var st unix.Stat_t
		if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			return false, errNoDir
		} else if !errors.Is(err, unix.ENOENT) {
			return false, err
		}
		return false, nil // another git of the agent removed or moved it
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EMLINK):
		t.copies = true
		return false, nil
	case err != nil:
		return false, err
	}
	if err := touch(to, name); err != nil {
		return false, ignore(err, unix.ENOENT)
	}
	return true, nil
}

// dir opens one of the receiver's 256 directories, and makes it if it is missing. errNoDir means that
// it was removed at once.
func (t *taker) dir(name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: beneath}
	fd, err := unix.Openat2(t.to, name, &how)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	if err := unix.Mkdirat(t.to, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchownat(t.to, name, int(t.r.Runner.UID), int(t.r.Runner.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return -1, gone(err)
		}
	}
	fd, err = unix.Openat2(t.to, name, &how)
	return fd, gone(err)
}

func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return errNoDir
	}
	return err
}

// has reports whether the receiver has a file of an object.
func (t *taker) has(id string) bool {
	var st unix.Stat_t
	return unix.Fstatat(t.to, id[:2]+"/"+id[2:], &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// file moves a file, or links it, to a name that must be free.
func (t *taker) file(from int, name string, to int) error {
	if !t.moves {
		return unix.Linkat(from, name, to, name, 0)
	}
	err := unix.Renameat2(from, name, to, name, unix.RENAME_NOREPLACE)
	if err == nil {
		t.moved++
	}
	return err
}

// touch sets the time of a file to now: maintenance removes files that were not touched for long.
func touch(dir int, name string) error {
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW)
}

// drop removes a file that the receiver has as well.
func (t *taker) drop(from int, name string) error {
	if !t.moves {
		return nil
	}
	err := unix.Unlinkat(from, name, 0)
	if err == nil {
		t.moved++
	}
	return ignore(err, unix.ENOENT)
}

// alternates formats a list of directories for git's environment.
func alternates(dirs []string) string {
	quoted := make([]string, len(dirs))
	for i, d := range dirs {
		if quoted[i] = d; strings.ContainsAny(d, ":\"\n") {
			quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(d) + `"`
		}
	}
	return strings.Join(quoted, ":")
}
