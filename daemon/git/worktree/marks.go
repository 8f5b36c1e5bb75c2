package worktree

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's object ids
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/gitindex"
)

// Git does not look at files that an index marks (git-update-index(1), --skip-worktree and
// --assume-unchanged). The marks are those of the rules that withhold files, or of the agent, which
// writes its index itself. What only the agent has must count as its work whatever its index says, so
// polis reads a worktree by a copy of the index without the marks. A marked file keeps its mark, and
// counts as unchanged, only if nothing of it can be lost:
//
//   - it is missing, as in a sparse checkout, or
//   - a commit has its content at that path: the agent's git did not replace a withheld file when it
//     merged another version of it.

// maxStale bounds the marked files whose content is looked for in commits. With more they count as
// changed.
const maxStale = 1000

// unmark takes the marks away from the entries for which of returns true, and reports whether there was one.
func (w *Workspace) unmark(ctx context.Context, agent string, v View, x *gitindex.Index, of func(name string) bool) (found bool, err error) {
	marked := x.Marked()
	if len(marked) == 0 {
		return false, nil
	}
	root, err := w.lower(agent, v)
	if err != nil {
		return false, err
	}
	defer root.Close()
	differ := map[int]string{}
	gone := missing{root: root}
	for _, i := range marked {
		name := x.Entries[i].Name
		if !of(name) || x.Skipped(i) && gone.has(name) {
			continue
		}
		if !x.Skipped(i) {
			x.Unmark(i)
			found = true
			continue
		}
		there, id := contentOf(root, name, x, i)
		switch {
		case !there:
			gone.note(name)
			continue
		case id != "" && id != x.ID(i):
			differ[i] = id
		default:
			x.Unmark(i)
		}
		found = true
	}
	stale := map[string]bool{}
	if len(differ) > 0 && len(differ) <= maxStale {
		names := make([]string, 0, len(differ))
		for i := range differ {
			names = append(names, x.Entries[i].Name)
		}
		if stale, err = w.committed(ctx, agent, names); err != nil {
			return false, err
		}
	}
	for i, id := range differ {
		if !stale[id+" "+x.Entries[i].Name] {
			x.Unmark(i)
		}
	}
	return found, nil
}

// missing knows the last directory that was found to be missing: a sparse checkout has many marked files in few such
// directories, and an index has the files of a directory one after the other.
type missing struct {
	root *os.File
	dir  string
}

func (m *missing) has(name string) bool { return m.dir != "" && strings.HasPrefix(name, m.dir) }

// note notes the outermost missing directory above a missing file.
func (m *missing) note(name string) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		f, err := openBelow(m.root, name[:i], unix.O_PATH|unix.O_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			m.dir = name[:i+1]
			return
		}
		if err != nil {
			return
		}
		f.Close()
	}
}

// contentOf reads a marked file. id is its object id; "" if git has to compare it itself: it is
// unchanged by its times, or cannot be read.
func contentOf(root *os.File, name string, x *gitindex.Index, i int) (there bool, id string) {
	f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP), ""
	}
	fi, err := f.Stat()
	f.Close()
	if err != nil || x.SameStat(i, fi) {
		return true, ""
	}
	if !fi.Mode().IsRegular() || unsavable(fi) {
		return true, ""
	}
	return true, hashFile(root, name, fi.Size(), len(x.ID(i)))
}

// parseIndex reads an index with object ids of either kind.
func parseIndex(text []byte) (*gitindex.Index, error) {
	x, err := gitindex.Parse(text, sha1.Size)
	if err == nil {
		return x, nil
	}
	if long, lerr := gitindex.Parse(text, sha256.Size); lerr == nil {
		return long, nil
	}
	return nil, err
}

// objectHash is the hash of object ids with that many digits.
func objectHash(digits int) hash.Hash {
	if digits == 2*sha256.Size {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // as above
}

// committed returns what the commits of the agent's HEAD and of the target have at some paths, as "ID PATH".
func (w *Workspace) committed(ctx context.Context, agent string, names []string) (map[string]bool, error) {
	target, err := w.Target(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"rev-list", "--objects", "--full-history", "--end-of-options", git.Branch(target)}
	head, err := w.head(ctx, agent)
	if err != nil {
		return nil, err
	}
	if head != "" {
		args = append(args, head)
	}
	out := map[string]bool{}
	err = w.of(agent).Lines(ctx, git.Cmd{Args: append(append(args, "--"), names...)}, func(line string) { out[line] = true })
	return out, err
}

// unmarkCopy is unmark for the saver's copy of a whole index. Git does it for an index that polis does not
// read: there every file that exists loses its mark.
func (s *saver) unmarkCopy(ctx context.Context) error {
	fi, err := os.Lstat(s.index)
	if err != nil {
		return err
	}
	if fi.Size() > maxIndex {
		return s.unmarkByGit(ctx)
	}
	text, err := os.ReadFile(s.index)
	if err != nil {
		return err
	}
	x, err := parseIndex(text)
	if err != nil {
		return s.unmarkByGit(ctx)
	}
	found, err := s.w.unmark(ctx, s.agent, s.opt.View, x, func(string) bool { return true })
	if err != nil || !found {
		return err
	}
	if err := os.Remove(s.index); err != nil {
		return err
	}
	return s.w.writeIndex(s.index, x.Whole(), fi.ModTime())
}

func (s *saver) unmarkByGit(ctx context.Context) error {
	out, err := s.git(ctx, nil, "ls-files", "-z", "-v", "--cached")
	if err != nil {
		return fmt.Errorf("read the index: %w", err)
	}
	root, err := s.w.lower(s.agent, s.opt.View)
	if err != nil {
		return err
	}
	defer root.Close()
	var assumed, skipping bytes.Buffer
	for _, p := range git.SplitNUL(out) {
		tag, name, _ := strings.Cut(p, " ")
		if tag != strings.ToUpper(tag) {
			assumed.WriteString(name + "\x00")
		}
		if strings.ToUpper(tag) != skipped {
			continue
		}
		f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		f.Close()
		skipping.WriteString(name + "\x00")
	}
	for _, c := range []struct {
		names *bytes.Buffer
		flag  string
	}{{&assumed, "--no-assume-unchanged"}, {&skipping, "--no-skip-worktree"}} {
		if c.names.Len() == 0 {
			continue
		}
		if _, err := s.git(ctx, c.names, "update-index", "-z", c.flag, "--stdin"); err != nil {
			return fmt.Errorf("read the index: %w", err)
		}
	}
	return nil
}

// unmarkedIndex makes a copy of an agent's index without the marks in dir. It returns "" if the agent's own has none.
func (w *Workspace) unmarkedIndex(ctx context.Context, agent string, v View, dir string) (string, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, fi, err := openIndex(root)
	if err != nil {
		return "", nil //nolint:nilerr // git says what is wrong with it, or has none
	}
	defer f.Close()
	if fi.Size() <= maxIndex {
		text, err := io.ReadAll(io.LimitReader(f, maxIndex))
		if err != nil {
			return "", err
		}
		if x, err := parseIndex(text); err == nil && len(x.Marked()) == 0 {
			return "", nil
		}
	}
	s := &saver{w: w, agent: agent, opt: SaveOptions{View: v}, index: path.Join(dir, "index")}
	if err := s.readIndex(); err != nil {
		return "", err
	}
	return s.index, s.unmarkCopy(ctx)
}
