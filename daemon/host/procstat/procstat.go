package procstat

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// maxTable bounds what is read of a table of /proc/PID/net, in bytes, and maxStates the processes
// whose states are read.
const (
	maxTable  = 1 << 20
	maxStates = 4096
)

// Stopped returns a process that is stopped or traced (proc_pid_stat(5), state T and t); 0 if
// none is.
func Stopped(pids []int) int {
	for _, pid := range pids[:min(len(pids), maxStates)] {
		b, err := os.ReadFile(path.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name before may contain anything.
		if _, state, ok := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " "); ok && (state[0] == 'T' || state[0] == 't') {
			return pid
		}
	}
	return 0
}

// Began returns when a process began, in clock ticks since the machine started: field 22 of
// proc_pid_stat(5).
func Began(pid int) (uint64, error) {
	b, err := os.ReadFile(path.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name before may contain anything. The state, field 3, is the first word after it.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(f))
	}
	return strconv.ParseUint(f[19], 10, 64)
}

// CallBytes returns how many bytes processes read and wrote by system calls, rchar and wchar of proc_pid_io(5).
func CallBytes(pids []int) (n uint64) {
	for _, pid := range pids[:min(len(pids), maxStates)] {
		b, err := os.ReadFile(path.Join("/proc", strconv.Itoa(pid), "io"))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(b)) {
			if key, value, _ := strings.Cut(line, ": "); key == "rchar" || key == "wchar" {
				if k, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
					n += k
				}
			}
		}
	}
	return n
}

// eachLine calls f for each line of a table of the network namespace of a process.
func eachLine(pid int, table string, f func(words []string)) error {
	file, err := os.Open(path.Join("/proc", strconv.Itoa(pid), "net", table))
	if err != nil {
		return fmt.Errorf("read the network's counters: %w", err)
	}
	defer file.Close()
	in := bufio.NewScanner(io.LimitReader(file, maxTable))
	for in.Scan() {
		f(strings.Fields(in.Text()))
	}
	return in.Err()
}

// NetBytes returns how many bytes the network namespace of a process received and sent (proc_pid_net(5)), without
// its loopback.
func NetBytes(pid int) (n uint64, err error) {
	err = eachLine(pid, "dev", func(w []string) {
		if len(w) < 10 || !strings.HasSuffix(w[0], ":") || w[0] == "lo:" {
			return
		}
		for _, i := range []int{1, 9} {
			k, err := strconv.ParseUint(w[i], 10, 64)
			if err == nil {
				n += k
			}
		}
	})
	return n, err
}

// Connections counts the TCP connections to the outside of the network namespace of a process that
// are established, or just being made.
func Connections(pid int) (n int, err error) {
	for _, table := range []string{"tcp", "tcp6"} {
		terr := eachLine(pid, table, func(w []string) {
			// sl local remote st: 01 is ESTABLISHED, 02 SYN_SENT (net/tcp_states.h).
			if len(w) < 4 || w[3] != "01" && w[3] != "02" {
				return
			}
			if remote, _, ok := strings.Cut(w[2], ":"); ok && !loopbackHex(remote) {
				n++
			}
		})
		if !errors.Is(terr, fs.ErrNotExist) { // without IPv6 there is no tcp6
			err = cmp.Or(err, terr)
		}
	}
	return n, err
}

// loopbackHex reports whether an address of /proc/net/tcp is of 127.0.0.0/8, ::1, or the former as
// IPv6. Its words are in the order of the host, which is little-endian on all that polis runs on.
func loopbackHex(a string) bool {
	const mapped = "0000000000000000FFFF0000"
	a = strings.TrimPrefix(a, mapped)
	return len(a) == 8 && strings.HasSuffix(a, "7F") || a == "00000000000000000000000001000000"
}
