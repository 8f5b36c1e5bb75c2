package fusefs

import (
	"cmp"
	"log/slog"
	"path"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Change is what has become of one path behind the view.
type Change struct {
	Path string
	// Was and Is are the types of the object before and now (S_IFMT bits), 0 for none.
	Was, Is uint32
	// Replaced: another object has the name now.
	Replaced bool
	// Content: the content of a regular file may have changed; false for its attributes only.
	Content bool
}

// echoer makes the calls of an echo. It is used on the thread that the view recognises.
type echoer struct {
	fs    *FS
	is    *echoing
	root  int
	above bool // through the overlay above the view
}

// show is the echo of a list.
func (fs *FS) show(list []Change, dirs map[string]bool) {
	s := &showing{fs: fs, wake: make(chan struct{}, 1), gone: map[string]formerly{}}
	s.plan(list, dirs)
	s.run()
}

// openMount opens the root directory of the view's mount, or of the overlay above it; -1 if it is not there.
func (fs *FS) openMount(above bool) int {
	at := fs.cfg.Mountpoint
	if above {
		at = fs.cfg.Above
	}
	root, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1 // unmounted: nobody watches
	}
	if id, err := device(threadPath(root)); !above && (err != nil || fs.control == nil || id != fs.control.ID()) {
		backing.Close(root) // what is mounted there is not this view
		return -1
	}
	return root
}

// withParent calls f with the directory of a path, beneath the root of the mount and on it.
func (e *echoer) withParent(p string, f func(dir int, name string) error) error {
	up, name := path.Split(p)
	dir, err := openOnMount(e.root, up)
	if err != nil {
		return err
	}
	defer backing.Close(dir)
	return f(dir, name)
}

// openOnMount opens what is at a path, without a way out of the mount: root would change what is there.
func openOnMount(root int, p string) (int, error) {
	return unix.Openat2(root, cmp.Or(p, "."), &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: backing.ResolveFlags | unix.RESOLVE_NO_XDEV})
}

func (e *echoer) failed(p string, err error) {
	if err != nil {
		e.fs.log.Debug("change not shown", slog.String("op", "show-changes"), slog.String("path", p), slog.Any("err", err))
	}
}

// remove removes a name once more.
func (e *echoer) remove(c Change) {
	flags := 0
	if c.Was == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	e.is.step("", true)
	defer e.is.step("", false)
	e.failed(c.Path, e.withParent(c.Path, func(dir int, name string) error { return unix.Unlinkat(dir, name, flags) }))
}

// showThere shows what is at a path now.
func (e *echoer) showThere(c Change) {
	made := c.Was == 0 || c.Replaced
	switch {
	case made:
		if c.Replaced && c.Was != unix.S_IFDIR && c.Is != unix.S_IFDIR {
			e.remove(c)
		}
		err := e.make(c)
		e.failed(c.Path, err)
		if err != nil { // who uses it already learns that something has changed
			nudgeAt(e.root, c.Path, e.fs.log)
		}
	case !c.Content:
		nudgeAt(e.root, c.Path, e.fs.log)
	}
	if c.Is == unix.S_IFREG && (made || c.Content) {
		e.failed(c.Path, e.withParent(c.Path, e.modify))
	}
}

// make makes a name once more.
func (e *echoer) make(c Change) error {
	e.is.step(c.Path, false)
	defer e.is.step("", false)
	return e.withParent(c.Path, func(dir int, name string) error {
		switch c.Is {
		case unix.S_IFDIR:
			return unix.Mkdirat(dir, name, 0o700)
		case unix.S_IFLNK:
			return unix.Symlinkat(".", dir, name)
		}
		return unix.Mknodat(dir, name, c.Is|0o600, 0)
	})
}

// modify opens a file for writing, sets the time of its last change to what it is, and closes it.
func (e *echoer) modify(dir int, name string) error {
	fd, err := openOnMount(dir, name)
	if err != nil {
		return err
	}
	defer backing.Close(fd)
	if e.above && !e.ours(fd) {
		return unix.ENODATA
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EINVAL
	}
	if st.Mode&0o111 == 0 { // a program could not be executed meanwhile (ETXTBSY)
		if w, err := unix.Open(threadPath(fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			defer backing.Close(w)
		}
	}
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, st.Mtim}
	return unix.UtimesNanoAt(unix.AT_FDCWD, threadPath(fd), ts, 0)
}

// ours reports whether the view answers requests about an object of the overlay above it.
func (e *echoer) ours(fd int) bool {
	n, err := unix.Getxattr(threadPath(fd), notifyName, make([]byte, 16))
	return err == nil && n == len(echoAnswer)
}
