package gitdir

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a process that cannot be mistaken for a later one of the same
// number: a number and a time of start in clock ticks (proc_pid_stat(5)). The
// zero process is one that could not be seen, and counts as alive.
type process struct {
	id    int
	start string
}

// leader says whether a number is that of a process, and not of one of its
// other threads: only the former has a descriptor (pidfd_open(2)).
func leader(thread uint32) bool {
	fd, err := unix.PidfdOpen(int(thread), 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) //nolint:errcheck // only asked for
	return true
}

// processOf finds the process a thread belongs to: the kernel tells a file
// system server of threads.
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

// alive is false only if the process is known to have ended. A zombie has ended: its files are
// closed.
func (p process) alive() bool {
	if p.id == 0 {
		return true
	}
	stat, gone := statOf(p.id)
	if stat == nil {
		return !gone
	}
	// A leader that has ended stays as a zombie while other threads run.
	dead := (stat[0] == "Z" || stat[0] == "X") && stat[17] == "1"
	return stat[19] == p.start && !dead
}

// statOf returns the fields of a process from the third, its state, on; gone
// means that there is no such process.
func statOf(id int) (fields []string, gone bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat")
	if err != nil {
		return nil, os.IsNotExist(err) || strings.Contains(err.Error(), "no such process")
	}
	if i := bytes.LastIndexByte(b, ')'); i > 0 { // the name may hold anything
		fields = strings.Fields(string(b[i+1:]))
	}
	if len(fields) < 20 {
		return nil, false
	}
	return fields, false
}
