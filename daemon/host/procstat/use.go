package procstat

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of processor time in /proc: USER_HZ is 100 on every machine that Linux supports
// today.
const tick = 10 * time.Millisecond

// Use returns the processor time and the resident memory, in bytes, of one process, or zeros if it
// has exited.
func Use(pid int) (cpu time.Duration, memory uint64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	// The name in parentheses can contain any character. proc_pid_stat(5): fields 14 and 15 are
	// utime and stime, field 24 is rss in pages.
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(words) < 22 {
		return 0, 0
	}
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(words[field-3], 10, 63)
		if err != nil {
			return 0
		}
		return n
	}
	return time.Duration(number(14)+number(15)) * tick, number(24) * uint64(os.Getpagesize())
}

// Memory returns the machine's memory and the part that is available without swapping, in bytes
// (proc_meminfo(5)).
func Memory() (total, available uint64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kb, err := strconv.ParseUint(words[1], 10, 44)
		if err != nil {
			continue
		}
		switch words[0] {
		case "MemTotal:":
			total = kb << 10
		case "MemAvailable:":
			available = kb << 10
		}
	}
	if total == 0 {
		return 0, 0, errors.New("/proc/meminfo has no MemTotal")
	}
	return total, available, nil
}

// MaxPIDs returns the number of process IDs that the machine has (kernel.pid_max, proc_sys_kernel(5));
// 0 if it is unknown.
func MaxPIDs() int64 {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// FreeBytes returns how many bytes a user can still write to the file system of a directory
// (statfs(2)).
func FreeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(min(st.Bavail*uint64(st.Bsize), 1<<62)), nil
}
