package daemonlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lingerTime bounds the wait for what a killed daemon was just starting.
const lingerTime = 10 * time.Second

// maxFile bounds what is read of a lock file, in bytes.
const maxFile = 16 << 10

// Owner is the content of a lock file: the daemon that holds it.
type Owner struct {
	// PID is the number of its process.
	PID int
	// RunDir and Socket are its run directory and its admin socket.
	RunDir, Socket string
}

func (o Owner) String() string {
	return fmt.Sprintf("polisd %d with run_dir %s", o.PID, o.RunDir)
}

// HeldError reports that another daemon holds the lock.
type HeldError struct {
	Path string
	// Owner may be incomplete: it has just taken the lock, or is of an earlier version.
	Owner Owner
}

func (e *HeldError) Error() string { return fmt.Sprintf("%s is locked by %s", e.Path, e.Owner) }

// Lock is a lock file that this process holds.
type Lock struct {
	f    *os.File
	path string
}

// Hold takes the lock file at path, creating it if it is missing, and writes me into it. A living
// owner is a *HeldError. A program that a killed daemon was about to start keeps its lock until
// it executes, for a moment or, on a machine under load, longer: a lock whose owner is dead is
// waited for. A lock on a file that its owner has removed since does not count: the file of that
// name does.
func Hold(ctx context.Context, path string, me Owner) (*Lock, error) {
	return hold(ctx, path, me, func(Owner) error { return nil })
}

// hold is Hold if may allows it. may gets the last owner, while this process has the lock. If it
// refuses, the file still names the last owner.
func hold(ctx context.Context, path string, me Owner, may func(Owner) error) (*Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lingerTime)
	defer cancel()
	for {
		l, err := try(path, me, may)
		if err == nil {
			return l, nil
		}
		var held *HeldError
		again := errors.Is(err, errReplaced) || errors.As(err, &held) && held.Owner.PID > 0 && !alive(held.Owner.PID)
		if !again {
			return nil, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

var errReplaced = errors.New("the lock file was replaced meanwhile")

func try(path string, me Owner, may func(Owner) error) (_ *Lock, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &HeldError{Path: path, Owner: read(f)}
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	mine, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(mine, now) {
		return nil, errReplaced
	}
	if err := may(read(f)); err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	text := fmt.Appendf(nil, "%d\nrun_dir %s\nsocket %s\n", me.PID, strconv.Quote(me.RunDir), strconv.Quote(me.Socket))
	if _, err := f.WriteAt(text, 0); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &Lock{f: f, path: path}, nil
}

// Read returns the daemon that holds or last held the lock file at path.
func Read(path string) (Owner, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Owner{}, err
	}
	defer f.Close()
	return read(f), nil
}

// read parses f. The first line is the process number, as in earlier versions.
func read(f *os.File) (o Owner) {
	buf := make([]byte, maxFile)
	n, _ := f.ReadAt(buf, 0) //nolint:errcheck // a short read is the end of the file
	for i, line := range strings.Split(string(buf[:n]), "\n") {
		if i == 0 {
			o.PID, _ = strconv.Atoi(strings.TrimSpace(line)) //nolint:errcheck // nothing written yet: another process has just taken it
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		text, err := strconv.Unquote(value)
		if err != nil {
			continue
		}
		switch key {
		case "run_dir":
			o.RunDir = text
		case "socket":
			o.Socket = text
		}
	}
	return o
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// Release releases the lock; the file stays.
func (l *Lock) Release() error { return l.f.Close() }

// Remove removes the file and releases the lock, in this order: a process that waits for the lock
// of a removed file tries again.
func (l *Lock) Remove() error {
	err := os.Remove(l.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.f.Close())
}
