package cgroup

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

// OOM is one or more processes of a group killed because it was at its memory
// limit.
type OOM struct {
	Time  time.Time
	Count uint64 // kills since the group was made, this one included
	Pid   int    // in the host's first pid namespace; 0 if the kernel log is not readable
	Comm  string // the process's name, at most 15 bytes; "" if the kernel log is not readable
	Bytes uint64 // memory the process had; 0 if the kernel log is not readable
	// Above: the limit was not the group's own, but that of a group above it, or the machine's
	// memory was used up.
	Above bool
}

// WatchOOM reports kills for memory until ctx ends or the group is removed; then the channel is
// closed. The receiver must drain it. Kills in quick succession may be reported as one event with
// their Count.
//
// The kernel names the process only in its log, so Pid needs a readable /dev/kmsg.
func (g *Group) WatchOOM(ctx context.Context) (<-chan OOM, error) {
	hier, ok := g.host.controller(memory)
	if !ok {
		return nil, fmt.Errorf("watch memory of cgroup %s: %w", g.Path, &ControllerError{Controller: memory, Path: g.Path})
	}
	open := func(dir string) (*os.File, error) { return notifyV1(dir, "memory.oom_control", "") }
	if hier.v2 {
		open = notifyV2
	}
	last, err := g.OOMKills()
	if err != nil {
		return nil, err
	}
	f, err := open(g.dir(hier))
	if err != nil {
		return nil, fmt.Errorf("watch memory of cgroup %s: %w", g.Path, err)
	}
	w := &oomWatch{group: g, file: f, last: last, kernel: openKernelLog(), out: make(chan OOM)}
	go w.run(ctx)
	return w.out, nil
}

// notifyV1 returns an eventfd that counts the events of a file of the group, and once more when the
// group is removed. memory.oom_control has one when the group is at its limit, memory.usage_in_bytes
// one when the number of bytes in args is crossed.
func notifyV1(dir, file, args string) (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	f := os.NewFile(uintptr(fd), "eventfd")
	ctl, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer ctl.Close() // the kernel keeps what it needs
	if err := writeFile(dir, "cgroup.event_control", strings.TrimSpace(fmt.Sprintf("%d %d %s", fd, ctl.Fd(), args))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// notifyV2 returns an inotify descriptor that is readable when memory.events changes, and when a
// group beside this one, or this one itself, is removed: the files of a removed group raise no
// event.
func notifyV2(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	for name, mask := range map[string]uint32{
		filepath.Join(dir, "memory.events"): unix.IN_MODIFY,
		filepath.Dir(dir):                   unix.IN_DELETE,
	} {
		if _, err := unix.InotifyAddWatch(fd, name, mask); err != nil {
			return nil, errors.Join(&os.PathError{Op: "inotify_add_watch", Path: name, Err: err}, f.Close())
		}
	}
	return f, nil
}

type oomWatch struct {
	group  *Group
	file   *os.File
	kernel *kernelLog
	last   uint64
	out    chan OOM
}

func (w *oomWatch) run(ctx context.Context) {
	defer close(w.out)
	defer w.kernel.close()
	defer w.file.Close()
	// Closing ends a blocked Read; the error of a second Close is expected.
	stop := context.AfterFunc(ctx, func() { w.file.Close() })
	defer stop()
	buf := make([]byte, 4096)
	for {
		if _, err := w.file.Read(buf); err != nil || !w.group.Exists() {
			return
		}
		now, ok := w.settle(ctx)
		if !ok {
			continue
		}
		ev := OOM{Time: time.Now(), Count: now}
		w.last = now
		if v, ok := w.kernel.victim(ctx, w.group.Path); ok {
			ev.Pid, ev.Comm, ev.Bytes, ev.Above = v.pid, v.comm, v.bytes, v.above
		}
		select {
		case w.out <- ev:
		case <-ctx.Done():
			return
		}
	}
}

// settle waits for the count to rise: v1 notifies that the limit was hit before it has chosen a
// process to kill, and v2 also notifies of events without a kill.
func (w *oomWatch) settle(ctx context.Context) (uint64, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for wait := newBackoff(); ; {
		now, err := w.group.OOMKills()
		if err == nil && now > w.last {
			return now, true
		}
		if hier, _ := w.group.host.controller(memory); hier.v2 {
			return 0, false
		}
		if wait.sleep(ctx) != nil {
			return 0, false
		}
	}
}
