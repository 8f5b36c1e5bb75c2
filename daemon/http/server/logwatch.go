package server

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// logPoll is how often a followed log is read if nothing announces what comes,
	// logIdle if something does: then it is for what was missed.
	logPoll = 50 * time.Millisecond
	logIdle = time.Second
)

// logWatch announces what is written below a directory.
type logWatch struct {
	wrote chan struct{}
	every time.Duration
	file  *os.File // nil: it cannot be watched, which is no fault
	done  chan struct{}
}

// watchLog watches dir with inotify(7), of which a machine has few: without one
// the log is polled.
func watchLog(dir string) *logWatch {
	w := &logWatch{wrote: make(chan struct{}, 1), every: logPoll, done: make(chan struct{})}
	file, err := notify(dir)
	if err != nil {
		close(w.done)
		return w
	}
	w.file, w.every = file, logIdle
	go w.run()
	return w
}

func notify(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify_init1: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_MOVED_TO|unix.IN_CREATE|unix.IN_ONLYDIR); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify_add_watch %s: %w", dir, err), file.Close())
	}
	return file, nil
}

// run ends with Close.
func (w *logWatch) run() {
	defer close(w.done)
	buf := make([]byte, 4096)
	for {
		if _, err := w.file.Read(buf); err != nil {
			return
		}
		select {
		case w.wrote <- struct{}{}:
		default:
		}
	}
}

func (w *logWatch) close() {
	if w.file != nil {
		_ = w.file.Close() //nolint:errcheck // it was only read
	}
	<-w.done
}
