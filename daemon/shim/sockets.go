package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"polis/daemon/host/relisten"
	"polis/daemon/store/layout"
)

// openSockets prepares what keeps the sockets of the shim. They are checked at each heartbeat, and when polisd, which does
// not find one, sends SIGCONT: an idle shim needs no timer, and no instance of inotify(7).
func (s *Shim) openSockets() {
	s.sockets.Report = func(r relisten.Report) {
		e := r.Event(s.Spec.Agent)
		if r.Err != nil && filepath.Dir(r.Path) == s.insideDir() {
			e.Data["hint"] = fmt.Sprintf("programs of the agent do not reach polis until it is started again: polisctl agents stop %s && polisctl agents start %s", s.Spec.Agent, s.Spec.Agent)
		}
		r.Log(s.Log)
		s.events.Publish(e)
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCONT)
	s.group.Go(func() error {
		defer signal.Stop(c)
		for {
			select {
			case <-c:
				s.sockets.Check()
			case <-s.ctx.Done():
				return nil
			}
		}
	})
}

// keep follows a socket that was made at path.
func (s *Shim) keep(l *net.UnixListener, path string, o relisten.Options) (net.Listener, error) {
	f, err := relisten.Follow(l, path, o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s.sockets.Add(f)
	return f, nil
}

// listen makes the control socket, for root and the group of the spec.
func (s *Shim) listen() (net.Listener, error) {
	path, gid := layout.ShimSocket(s.Spec.RunDir), s.Spec.SocketGID
	l, err := makeSocket(path, gid)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return s.keep(l, path, relisten.Options{GID: gid, Mode: 0o660})
}

// makeSocket makes it under another name, so that it is never accessible with wrong permissions.
func makeSocket(path string, gid int) (*net.UnixListener, error) {
	tmp := path + ".new"
	if err := errors.Join(removeIfThere(path), removeIfThere(tmp)); err != nil {
		return nil, err
	}
	l, err := relisten.Private(tmp)
	if err != nil {
		return nil, err
	}
	if err = os.Chown(tmp, 0, gid); err == nil {
		err = os.Chmod(tmp, 0o660)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(tmp))
	}
	return l, nil
}
