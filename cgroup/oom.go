package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// OOM is one or more processes of a group killed because it was at its memory
// limit.
type OOM struct {
	Time  time.Time
	Count uint64 // kills since the group was made, this one included; v2 counts one twice when it kills the group
	Pid   int    // as the host's first pid namespace counts; 0 when the kernel log does not tell
	Comm  string // the process's name, at most 15 bytes; "" when the kernel log does not tell
}

// WatchOOM reports kills for memory until ctx ends or the group is removed;
// then the channel is closed. The receiver must drain it. Kills that follow
// each other closely may come as one event: Count tells.
//
// Which process it was the kernel says only in its log, so naming it needs a
// readable /dev/kmsg.
func (g *Group) WatchOOM(ctx context.Context) (<-chan OOM, error) {
	hier, ok := g.host.controller(memory)
	if !ok {
		return nil, fmt.Errorf("watch memory of cgroup %s: %w", g.Path, &ControllerError{Controller: memory, Path: g.Path})
	}
	open := notifyV1
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

// notifyV1 returns an eventfd that counts when the group is at its limit, and
// once more when it is removed.
func notifyV1(dir string) (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	f := os.NewFile(uintptr(fd), "eventfd")
	ctl, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer ctl.Close() // the kernel keeps what it needs
	if err := writeFile(dir, "cgroup.event_control", fmt.Sprintf("%d %d", fd, ctl.Fd())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// notifyV2 returns an inotify descriptor that is readable when memory.events
// changes, and when a group beside this one, or this one itself, is removed:
// the files of a removed group say nothing.
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
	// Closing is what ends a Read; a second Close only says "already closed".
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
		ev.Pid, ev.Comm = w.kernel.victim(ctx, w.group.Path)
		select {
		case w.out <- ev:
		case <-ctx.Done():
			return
		}
	}
}

// settle waits for the count to rise: v1 tells that the limit was hit before
// it has chosen whom to kill, and v2 tells also of events that kill nobody.
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

// kernelLog reads new records of /dev/kmsg. Nil where there is none to read.
type kernelLog struct{ fd int }

func openKernelLog() *kernelLog {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		unix.Close(fd)
		return nil
	}
	return &kernelLog{fd: fd}
}

func (k *kernelLog) close() {
	if k != nil {
		unix.Close(k.fd)
	}
}

// victim looks for the last process killed in the group in the records since
// the last call. The log is a little later than the count.
func (k *kernelLog) victim(ctx context.Context, group string) (pid int, comm string) {
	if k == nil {
		return 0, ""
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	buf := make([]byte, 8192) // a record is never larger
	for wait := newBackoff(); ; {
		n, err := unix.Read(k.fd, buf)
		switch {
		case err == nil:
			if p, c, ok := parseVictim(string(buf[:n]), group); ok {
				pid, comm = p, c
			}
		case errors.Is(err, unix.EAGAIN):
			if pid != 0 || wait.sleep(ctx) != nil {
				return pid, comm
			}
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			// Records were overwritten before they were read: go on with the next.
		default:
			return pid, comm
		}
	}
}

// parseVictim reads a record such as
//
//	4,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/p/a,task_memcg=/p/a,task=node,pid=71,uid=1000
//
// if it is about the group. In a container the log has paths of the host, of
// which the group's is the end.
func parseVictim(record, group string) (pid int, comm string, ok bool) {
	_, text, ok := strings.Cut(record, ";oom-kill:")
	if !ok {
		return 0, "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	// The name of the process is the one thing in the line that is not the
	// kernel's: it may hold commas and text that looks like a field. What
	// stands before it and after it is certain.
	head, task, ok := strings.Cut(text, ",task=")
	if !ok {
		return 0, "", false
	}
	end := strings.LastIndex(task, ",pid=")
	if end < 0 {
		return 0, "", false
	}
	_, memcg, ok := strings.Cut(head, "oom_memcg=")
	if !ok {
		return 0, "", false
	}
	memcg, _, _ = strings.Cut(memcg, ",task_memcg=")
	if memcg != group && !strings.HasSuffix(memcg, group) {
		return 0, "", false
	}
	number, _, _ := strings.Cut(task[end+len(",pid="):], ",")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return 0, "", false
	}
	return pid, task[:end], true
}
