package leftover

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxRead bounds the bytes that are read of a file in /proc, maxFiles the descriptors of a process.
const (
	maxRead  = 4096
	maxFiles = 4096
)

// process is a process that is alive.
type process struct {
	pid, parent, session int
	start                uint64 // in clock ticks since boot
	comm                 string
	task                 string // that it belongs to by the closure that it is in
}

// readProcess reads proc_pid_stat(5). A zombie is not alive.
func readProcess(root string, pid int) (p process, ok bool) {
	b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return p, false
	}
	// The name is in parentheses and can contain any character, including ")".
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return p, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return p, false
	}
	p.pid, p.comm = pid, string(b[open+1:end])
	p.parent, _ = strconv.Atoi(f[1])                //nolint:errcheck // the kernel writes numbers
	p.session, _ = strconv.Atoi(f[3])               //nolint:errcheck // the kernel writes numbers
	p.start, err = strconv.ParseUint(f[19], 10, 64) // starttime
	return p, err == nil
}

// command is the command line, with spaces; "" for none.
func command(root string, pid int) string {
	f, err := os.Open(filepath.Join(root, strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, maxRead)
	n, _ := f.Read(b) //nolint:errcheck // what was read counts
	return strings.TrimSpace(strings.ReplaceAll(string(b[:n]), "\x00", " "))
}

// memory is the resident memory, in bytes.
func memory(root string, pid int) int64 {
	b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// sockets calls f for the inode of each socket that a process has.
func sockets(root string, pid int, f func(inode uint32)) {
	dir, err := os.Open(filepath.Join(root, strconv.Itoa(pid), "fd"))
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxFiles) //nolint:errcheck // what was read counts
	for _, name := range names {
		to, err := os.Readlink(filepath.Join(dir.Name(), name))
		if err != nil {
			continue
		}
		if n, ok := strings.CutPrefix(to, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(n, "]"), 10, 32); err == nil {
				f(uint32(inode))
			}
		}
	}
}
