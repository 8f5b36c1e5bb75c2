package home

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/daemon/config"
	"polis/daemon/store"
)

// copied says of one private copy what it was made of. The file of root's at Spec.Record has it
// for each path, so that a later start knows who changed what since.
type copied struct {
	Owner string `json:"owner"` // sum of the owner's file
	Wrote string `json:"wrote"` // sum of what was written for it; "" if the agent's own was left there
}

// copies are an agent's private copies while they are refreshed.
type copies struct {
	Spec
	root   *os.Root
	record map[string]copied
	dirty  bool
}

// refreshCopies refreshes the copies of the owner's files, and what answers dialogs. A file that
// cannot be refreshed is logged. begins: the agent starts, so that its identity is known.
func (s Spec) refreshCopies(home string, begins bool) (err error) {
	c := copies{Spec: s, record: map[string]copied{}}
	if err := store.ReadSummed(s.Record, &c.record); err != nil && !errors.Is(err, os.ErrNotExist) {
		// Then every copy counts as the agent's own.
		s.Log.Warn("record of copied files not read", "agent", s.Agent, "err", err)
		c.record = map[string]copied{}
	}
	if c.root, err = os.OpenRoot(s.Dir); err != nil {
		return fmt.Errorf("home of agent %s: %w", s.Agent, err)
	}
	defer func() { err = errors.Join(err, c.root.Close()) }()
	seen := map[string]bool{}
	for _, f := range s.Files {
		seen[f.Path] = true
		if f.Mode == config.HomeReadOnly {
			continue
		}
		if err := c.refresh(f, home); err != nil {
			s.skip(f.Path, err) // an agent that left an obstacle there must still start
		}
	}
	for _, a := range s.Answers {
		if seen[a.File] {
			continue
		}
		seen[a.File] = true
		if err := c.refresh(config.HomeFile{Path: a.File}, ""); err != nil {
			s.skip(a.File, err)
		}
	}
	if file, ok := strings.CutPrefix(s.Context, "~/"); ok && !seen[file] {
		if err := c.context(file); err != nil {
			s.skip(file, err)
		}
	}
	if begins && !seen[identityFile] {
		if err := c.identity(); err != nil {
			s.skip(identityFile, err)
		}
	}
	if !c.dirty {
		return nil
	}
	return store.WriteSummed(s.Record, c.record)
}

// oldSuffix is the end of the name that what an agent made of its credentials gets when a new
// login of the owner's takes their place.
const oldSuffix = ".polis-old"

// absent stands for the sum of an owner's file that does not exist: a first login is a change.
const absent = "absent"

// refresh refreshes one file. home is the owner's home directory; "" if the file is the agent's
// own.
func (c *copies) refresh(f config.HomeFile, home string) error {
	mine, err := c.read(f.Path)
	if err != nil {
		return err
	}
	was := c.record[f.Path]
	next, is, keepOld := mine.content, was, false
	if home != "" {
		src, err := readOwners(home, f.Path, c.Owner)
		switch {
		case errors.Is(err, os.ErrNotExist):
			is.Owner = cmp.Or(is.Owner, absent)
		case err != nil:
			return err
		default:
			next, is, keepOld = choose(f, mine.content, src, was)
		}
	}
	out, err := c.answer(f.Path, next)
	if file, ok := strings.CutPrefix(c.Context, "~/"); ok && file == f.Path && err == nil {
		out = withSection(out, c.ContextPath)
	}
	if err != nil {
		err = fmt.Errorf("dialogs not answered: %w", err)
	}
	if is.Wrote == sum(next) || len(mine.content) == 0 && len(out) > 0 {
		is.Wrote = sum(out)
	}
	if string(out) != string(mine.content) {
		if keepOld {
			if err := c.root.Rename(f.Path, f.Path+oldSuffix); err != nil {
				return err
			}
			mine.there = false
			c.Log.Info("login replaced by the owner's new one", "agent", c.Agent, "path", f.Path, "kept", f.Path+oldSuffix)
		}
		if err := c.write(f.Path, mine, out); err != nil {
			return err
		}
	}
	if is != was {
		c.record[f.Path], c.dirty = is, true
	}
	return err
}

// choose returns the content that the agent's copy is to have before dialogs are answered, what
// to record of it, and whether to keep the agent's own version under another name.
func choose(f config.HomeFile, mine, src []byte, was copied) (next []byte, is copied, keepOld bool) {
	fresh := copied{Owner: sum(src), Wrote: sum(src)}
	own := was.Wrote != sum(mine) // the agent has changed it, or made it
	switch {
	case len(mine) == 0: // an empty file is the mount point of a read-only one
		return src, fresh, false
	case was.Owner == fresh.Owner:
		return mine, was, false
	case string(mine) == string(src):
		return src, fresh, false
	case was.Owner == "": // made before there was a record
		return mine, copied{Owner: fresh.Owner}, false
	case f.Mode == config.HomeCredentials || !own:
		return src, fresh, own
	}
	return mine, was, false
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// own is a file of the agent's home as it was read.
type own struct {
	there   bool
	content []byte
	st      unix.Stat_t
}

var errOwn = errors.New("the agent has something else there")

// read reads a file that the agent may have written. What is not a file of the agent's own, such
// as a link, is an error.
func (c *copies) read(rel string) (own, error) {
	fi, err := c.root.Lstat(rel)
	if errors.Is(err, os.ErrNotExist) {
		return own{}, nil
	}
	if err == nil && !fi.Mode().IsRegular() {
		err = errOwn
	}
	if err != nil {
		return own{}, err
	}
	f, err := c.root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // it may be another by now
	if err != nil {
		return own{}, err
	}
	defer f.Close()
	o := own{there: true}
	if err := unix.Fstat(int(f.Fd()), &o.st); err != nil {
		return own{}, err
	}
	if o.st.Mode&unix.S_IFMT != unix.S_IFREG || int(o.st.Uid) != c.UID {
		return own{}, errOwn
	}
	o.content, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(o.content) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return o, err
}

// write replaces a file of the agent's home, unless it has changed since it was read as mine. It
// is renamed into place, so that no start finds half of it.
func (c *copies) write(rel string, mine own, content []byte) error {
	if err := c.parents(rel); err != nil {
		return err
	}
	part := rel + ".polis-new"
	if err := c.root.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dst, err := c.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = dst.Write(content)
	if err = errors.Join(err, dst.Chown(c.UID, c.GID), dst.Close()); err == nil {
		if err = c.unchanged(rel, mine); err == nil {
			err = c.root.Rename(part, rel)
		}
	}
	if err != nil {
		return errors.Join(err, c.root.Remove(part))
	}
	return nil
}

// parents makes the directories that a file of the agent's home is in.
func (c *copies) parents(rel string) error {
	dir := ""
	for _, part := range strings.Split(filepath.Dir(rel), "/") {
		if part == "." {
			continue
		}
		dir = filepath.Join(dir, part)
		if err := c.root.Mkdir(dir, 0o700); err == nil {
			if err := c.root.Lchown(dir, c.UID, c.GID); err != nil {
				return err
			}
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// unchanged returns an error if the agent's file is another than mine.
func (c *copies) unchanged(rel string, mine own) error {
	fi, err := c.root.Lstat(rel)
	if !mine.there && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		st, ok := fi.Sys().(*syscall.Stat_t)
		if ok && mine.there && st.Ino == mine.st.Ino && st.Size == mine.st.Size && st.Mtim.Nano() == mine.st.Mtim.Nano() {
			return nil
		}
		err = errors.New("the agent writes it")
	}
	return err
}
