package relisten

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSockets bounds the sockets of one path. If there are more, the oldest but the first is closed: the first can be one
// that another program, such as systemd, holds too, and nobody would then accept from it.
const maxSockets = 8

// Options are those of a Listener.
type Options struct {
	// UID, GID and Mode are those of a socket that is made although none was found at the path before.
	UID, GID int
	Mode     uint32
	// Fixed: the directory is mounted elsewhere too, so that another one in its place does not replace it.
	Fixed bool
}

// Listener accepts the connections of all sockets that its path has led to. It implements net.Listener.
type Listener struct {
	path, base string

	accepted chan accepted
	done     chan struct{}
	group    sync.WaitGroup // the goroutines that accept

	mu      sync.Mutex // guards what follows
	dir     *dir
	access  access
	sockets []*socket
	serving bool // Accept was called
	closed  bool
}

type accepted struct {
	conn net.Conn
	err  error
}

// socket is one of the sockets. dev and ino are those of its name, 0 if the name is not known.
type socket struct {
	l        *net.UnixListener
	dev, ino uint64
}

// access is who may connect. list is the access control list, nil if there is none.
type access struct {
	uid, gid int
	mode     uint32
	list     []byte
}

// Follow takes over a socket that the caller has just made at path.
func Follow(l *net.UnixListener, path string, o Options) (*Listener, error) {
	return follow(l, path, o, func(int, string) bool { return true })
}

// Inherit takes over a socket that another program made at path, maybe long ago: what is there now can be another one,
// or one without a listener. To find out it connects, and the first connection that is accepted can be its own.
func Inherit(l *net.UnixListener, path string, o Options) (*Listener, error) {
	return follow(l, path, o, listens)
}

func follow(l *net.UnixListener, path string, o Options, is func(dir int, name string) bool) (*Listener, error) {
	d, err := openDir(filepath.Dir(path), o.Fixed)
	if err != nil {
		return nil, fmt.Errorf("follow the socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the name can be that of another one by then
	f := &Listener{path: path, base: filepath.Base(path), dir: d, accepted: make(chan accepted), done: make(chan struct{}),
		access: access{uid: o.UID, gid: o.GID, mode: o.Mode}, sockets: []*socket{{l: l}}}
	if st, err := d.stat(f.base); err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK && is(d.fd, f.base) {
		f.sockets[0].dev, f.sockets[0].ino = st.Dev, st.Ino
		f.access = accessOf(d.fd, f.base, st)
	}
	return f, nil
}

// Accept is part of net.Listener.
func (f *Listener) Accept() (net.Conn, error) {
	f.mu.Lock()
	if !f.serving && !f.closed { // earlier, connections would be taken that a next process could answer
		f.serving = true
		for _, s := range f.sockets {
			f.group.Go(func() { f.accept(s) })
		}
	}
	f.mu.Unlock()
	select {
	case a := <-f.accepted:
		return a.conn, a.err
	case <-f.done:
		return nil, &net.OpError{Op: "accept", Net: "unix", Addr: f.Addr(), Err: net.ErrClosed}
	}
}

// accept takes the connections of one socket until it is closed.
func (f *Listener) accept(s *socket) {
	for {
		c, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case f.accepted <- accepted{c, err}:
		case <-f.done:
			if err == nil {
				_ = c.Close() // accepted after the close
			}
			return
		}
	}
}

// Addr is part of net.Listener.
func (f *Listener) Addr() net.Addr { return &net.UnixAddr{Name: f.path, Net: "unix"} }

// Close is part of net.Listener. It leaves the name.
func (f *Listener) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.done)
	errs := []error{unix.Close(f.dir.fd)}
	for _, s := range f.sockets {
		errs = append(errs, s.l.Close())
	}
	f.mu.Unlock()
	f.group.Wait()
	return errors.Join(errs...)
}
