package cgroup

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelLog reads new records of /dev/kmsg. Nil if the log is not readable.
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

// victim is a process killed for memory.
type victim struct {
	pid   int
	comm  string
	bytes uint64
	above bool // the limit is that of a group above
}

// victim searches the records since the last call for the last process of the group that was
// killed. The log record follows the count a little later.
func (k *kernelLog) victim(ctx context.Context, group string) (v victim, ok bool) {
	if k == nil {
		return v, false
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	buf := make([]byte, 8192) // a record is never larger
	for wait := newBackoff(); ; {
		n, err := unix.Read(k.fd, buf)
		switch {
		case err == nil:
			if found, is := parseVictim(string(buf[:n]), group); is {
				v, ok = found, true
			} else if size, is := parseKilled(string(buf[:n]), v.pid); ok && is {
				v.bytes = size
			}
		case errors.Is(err, unix.EAGAIN):
			if ok && v.bytes != 0 || wait.sleep(ctx) != nil {
				return v, ok
			}
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			// Records were overwritten before they were read: continue with the next.
		default:
			return v, ok
		}
	}
}

// parseVictim reads a record such as
//
//	4,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/p/a,task_memcg=/p/a,task=node,pid=71,uid=1000
//	4,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,...,global_oom,task_memcg=/p/a,task=node,pid=71,uid=1000
//
// if it is about a process of the group. In a container the log has paths of
// the host, of which the group's is the end.
func parseVictim(record, group string) (v victim, ok bool) {
	_, text, ok := strings.Cut(record, ";oom-kill:")
	if !ok {
		return v, false
	}
	text, _, _ = strings.Cut(text, "\n")
	// The process chose its name, the only part of the line that is not the kernel's: it may
	// contain commas and text that looks like a field. The text before and after it is reliable.
	head, task, ok := strings.Cut(text, ",task=")
	if !ok {
		return v, false
	}
	end := strings.LastIndex(task, ",pid=")
	if end < 0 {
		return v, false
	}
	head, of, ok := strings.Cut(head, ",task_memcg=")
	if !ok || !strings.Contains(of+"/", group+"/") {
		return v, false
	}
	number, _, _ := strings.Cut(task[end+len(",pid="):], ",")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return v, false
	}
	_, limit, limited := strings.Cut(head, "oom_memcg=")
	return victim{pid: pid, comm: task[:end], above: !limited || limit != group && !strings.HasSuffix(limit, group)}, true
}

// parseKilled reads how much memory the process had from a record such as
//
//	3,1,2,-;Memory cgroup out of memory: Killed process 71 (node) total-vm:9kB, anon-rss:7kB, file-rss:2kB, shmem-rss:0kB, UID:1000 ...
func parseKilled(record string, pid int) (bytes uint64, ok bool) {
	_, text, ok := strings.Cut(record, "Killed process "+strconv.Itoa(pid)+" (")
	if !ok {
		return 0, false
	}
	// The process chose its name; the text after it is the kernel's.
	i := strings.LastIndex(text, ") total-vm:")
	if i < 0 {
		return 0, false
	}
	for _, key := range []string{"anon-rss:", "file-rss:", "shmem-rss:"} {
		_, rest, found := strings.Cut(text[i:], key)
		number, _, isKB := strings.Cut(rest, "kB")
		kb, err := strconv.ParseUint(number, 10, 44)
		if !found || !isKB || err != nil {
			return 0, false
		}
		bytes += kb << 10
	}
	return bytes, true
}
