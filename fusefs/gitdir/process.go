package gitdir

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process identifies a process by its number and its start time in clock ticks (proc_pid_stat(5)),
// so that a later process with the same number is different. The zero process is unknown and
// counts as alive.
type process struct {
	id    int
	start string
}

// leader reports whether a number is a process id, and not the id of another thread: pidfd_open(2)
// accepts only the former.
func leader(thread uint32) bool {
	fd, err := unix.PidfdOpen(int(thread), 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) //nolint:errcheck // opened only for its result
	return true
}

// processOf returns the process of a thread: the kernel passes thread ids to a file system server.
func processOf(thread uint32) process {
	if thread == 0 {
		return process{}
	}
	b, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(thread), 10) + "/status")
	if err != nil {
		return process{}
	}
	_, rest, ok := bytes.Cut(b, []byte("\nTgid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	id, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if !ok || err != nil {
		return process{}
	}
	stat, _ := statOf(id)
	if stat == nil {
		return process{}
	}
	return process{id: id, start: stat[19]}
}

// alive returns false only if the process is known to have exited. A zombie has exited: its files
// are closed.
func (p process) alive() bool {
	if p.id == 0 {
		return true
	}
	stat, gone := statOf(p.id)
	if stat == nil {
		return !gone
	}
	// A leader that has exited stays a zombie while other threads run.
	dead := (stat[0] == "Z" || stat[0] == "X") && stat[17] == "1"
	return stat[19] == p.start && !dead
}

// statOf returns the fields of a process from the third, its state, on. gone means that no such
// process exists.
func statOf(id int) (fields []string, gone bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat")
	if err != nil {
		return nil, os.IsNotExist(err) || strings.Contains(err.Error(), "no such process")
	}
	if i := bytes.LastIndexByte(b, ')'); i > 0 { // the name can contain any character
		fields = strings.Fields(string(b[i+1:]))
	}
	if len(fields) < 20 {
		return nil, false
	}
	return fields, false
}
