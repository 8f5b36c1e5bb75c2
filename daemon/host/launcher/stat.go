package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat is what the kernel knows of a process (proc_pid_stat(5)).
type stat struct {
	state   string // a letter: of its first thread
	flags   uint64 // PF_* of the same, from linux/sched.h
	threads int
	at      uint64 // when it began, in clock ticks since boot
}

// exiting is PF_EXITING.
const exiting = 0x4

// over reports whether a process has exited and only waits for its parent. The first thread of a process is a
// zombie, too, while others do not end.
func (s stat) over() bool { return (s.state == "Z" || s.state == "X") && s.threads <= 1 }

// readStat reads the state of a process. The kernel always has it, unlike the command line, which is in the
// memory of the process.
func readStat(pid int) (s stat, err error) {
	// Not os.ReadFile, which makes three times as many system calls: polisd reads this of every
	// shim all the time.
	path := fmt.Sprintf("/proc/%d/stat", pid)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 1024) // its 52 numbers and a name of 64 bytes fit
	n, err := unix.Read(fd, b)
	if err != nil {
		return s, &os.PathError{Op: "read", Path: path, Err: err}
	}
	b = b[:n]
	// The name before may contain anything.
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(words) < 20 {
		return s, fmt.Errorf("/proc/%d/stat is cut short", pid)
	}
	s.state = words[0]
	if s.flags, err = strconv.ParseUint(words[6], 10, 64); err == nil {
		s.threads, err = strconv.Atoi(words[17])
	}
	if err == nil {
		s.at, err = strconv.ParseUint(words[19], 10, 64)
	}
	return s, err
}

// born returns when a process began, and whether it has exited.
func born(pid int) (at uint64, over bool, err error) {
	s, err := readStat(pid)
	return s.at, s.over(), err
}

// dying reports whether a process has been killed, or exits, and has not ended.
func dying(pid int) (bool, error) {
	s, err := readStat(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil || s.state == "Z" || s.state == "X" || s.flags&exiting != 0 {
		return err == nil, err
	}
	// A thread that waits for something that no signal interrupts keeps the signal.
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return false, fmt.Errorf("/proc/%d/status: %s: %w", pid, name, err)
		}
		if set&(1<<(unix.SIGKILL-1)) != 0 {
			return true, nil
		}
	}
	return false, err
}
