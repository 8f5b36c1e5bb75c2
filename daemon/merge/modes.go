package merge

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"polis/daemon/merge/gate"
)

// maxSiblings bounds the files of a directory whose permissions are read.
const maxSiblings = 1000

// modes are the permissions that a fast-forward must keep. Git creates each file by its umask, and that of
// polisd says nothing about the owner's: a file that was there keeps its permissions, and a new one gets those
// that the files of its directory have.
type modes struct {
	files map[string]fs.FileMode // of what changes and was there
	dirs  map[string]fs.FileMode // of new files in a directory that is there: read and write
}

func readModes(root *os.Root, changes []gate.Change) (*modes, error) {
	m := &modes{files: map[string]fs.FileMode{}, dirs: map[string]fs.FileMode{}}
	for _, c := range changes {
		if fi, err := root.Lstat(c.Path); err == nil && fi.Mode().IsRegular() {
			m.files[c.Path] = fi.Mode().Perm()
			continue
		}
		dir := path.Dir(c.Path)
		for {
			if _, known := m.dirs[dir]; known {
				break
			}
			if fi, err := root.Lstat(dir); err == nil && fi.IsDir() {
				if m.dirs[dir], err = usual(root, dir, fi.Mode()); err != nil {
					return nil, err
				}
				break
			} else if err != nil && !absent(err) {
				return nil, err
			}
			if dir == "." {
				break
			}
			dir = path.Dir(dir)
		}
	}
	return m, nil
}

// usual are the permissions to read and write that the files of a directory have; of the directory itself if there
// are none.
func usual(root *os.Root, dir string, own fs.FileMode) (fs.FileMode, error) {
	f, err := root.Open(dir)
	if err != nil {
		return own & 0o666, nil //nolint:nilerr // it can be searched, not read
	}
	defer f.Close()
	entries, err := f.ReadDir(maxSiblings)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var all fs.FileMode
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil {
			all |= fi.Mode() & 0o666
		}
	}
	if all == 0 {
		all = own & 0o666
	}
	// One file that everybody can write makes no other so: a user who cannot change the directory cannot change new files.
	return all &^ (0o022 &^ own.Perm()), nil
}

// keep gives what a fast-forward has made its permissions.
func (m *modes) keep(root *os.Root, b *before) error {
	var errs []error
	made := map[string]bool{}
	for _, c := range b.changes {
		if c.New == gate.ModeNone || c.New == gate.ModeGitlink {
			continue
		}
		dir := path.Dir(c.Path)
		for ; dir != "."; dir = path.Dir(dir) {
			if _, there := m.dirs[dir]; there {
				break
			}
			if state, known := b.was[dir]; known && state == none {
				made[dir] = true
			}
		}
		if c.New == gate.ModeLink {
			continue
		}
		want, was := m.files[c.Path]
		if !was {
			want = m.dirs[dir]
		}
		if want &= 0o666; want == 0 {
			continue
		}
		if c.New == gate.ModeExec {
			want |= want >> 2 & 0o111
		}
		errs = append(errs, chmod(root, c.Path, want, false))
	}
	for name := range made {
		at := path.Dir(name)
		for ; at != "."; at = path.Dir(at) {
			if _, there := m.dirs[at]; there {
				break
			}
		}
		if want := m.dirs[at]; want != 0 {
			errs = append(errs, chmod(root, name, want|want>>2&0o111, true))
		}
	}
	return errors.Join(errs...)
}

// chmod changes the permissions of a file, or of a directory, if it is one.
func chmod(root *os.Root, name string, want fs.FileMode, dir bool) error {
	fi, err := root.Lstat(name)
	if err != nil || fi.IsDir() != dir || !dir && !fi.Mode().IsRegular() || fi.Mode().Perm() == want {
		return nil //nolint:nilerr // its owner has changed it meanwhile
	}
	return root.Chmod(name, want|fi.Mode()&(fs.ModeSetgid|fs.ModeSticky))
}
