package backing

import (
	"bytes"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pathArg is which arguments of a system call are a path, and the directory in which it begins.
type pathArg struct{ dir, path int }

// noDir is the working directory.
const noDir = -1

// pathCalls are the system calls with paths that matter to files with several names. A path that is made or replaced
// comes first.
var pathCalls = map[int][]pathArg{
	unix.SYS_LINKAT: {{2, 3}, {0, 1}}, unix.SYS_RENAMEAT: {{2, 3}, {0, 1}}, unix.SYS_RENAMEAT2: {{2, 3}, {0, 1}}, unix.SYS_SYMLINKAT: {{1, 2}},
	unix.SYS_MKDIRAT: {{0, 1}}, unix.SYS_MKNODAT: {{0, 1}}, unix.SYS_UNLINKAT: {{0, 1}}, unix.SYS_OPENAT: {{0, 1}}, unix.SYS_OPENAT2: {{0, 1}},
	unix.SYS_FACCESSAT: {{0, 1}}, unix.SYS_FACCESSAT2: {{0, 1}}, unix.SYS_FCHMODAT: {{0, 1}}, unix.SYS_FCHOWNAT: {{0, 1}}, unix.SYS_STATX: {{0, 1}},
	unix.SYS_UTIMENSAT: {{0, 1}}, unix.SYS_READLINKAT: {{0, 1}}, unix.SYS_EXECVEAT: {{0, 1}}, unix.SYS_EXECVE: {{noDir, 0}}, unix.SYS_TRUNCATE: {{noDir, 0}},
	unix.SYS_GETXATTR: {{noDir, 0}}, unix.SYS_LGETXATTR: {{noDir, 0}}, unix.SYS_SETXATTR: {{noDir, 0}}, unix.SYS_LSETXATTR: {{noDir, 0}},
}

// CallPaths returns the absolute paths in the system call of a thread that waits for an answer, as the thread has them,
// not resolved; none if there are none, or if they cannot be read (proc_pid_syscall(5), process_vm_readv(2)). Of a path
// that leads up from a directory that it names, only the end is returned: from where depends on symbolic links. call
// differs from call to call.
//
// The thread decides what is read, and can change it at any moment. It is a hint about the thread's own call: no
// permission may depend on it.
func CallPaths(tid uint32) (call string, paths []string) {
	proc := "/proc/" + strconv.FormatUint(uint64(tid), 10)
	text, err := os.ReadFile(proc + "/syscall")
	if err != nil {
		return "", nil
	}
	words := strings.Fields(string(text))
	if len(words) < 7 {
		return "", nil // it runs
	}
	n, err := strconv.Atoi(words[0])
	if err != nil {
		return "", nil
	}
	arg := func(i int) uint64 {
		v, _ := strconv.ParseUint(strings.TrimPrefix(words[1+i], "0x"), 16, 64) //nolint:errcheck // the kernel's
		return v
	}
	if sp := arg(len(words) - 3); sp <= math.MaxUint32 {
		return string(text), nil // a program of 32 bits: other calls have these numbers
	}
	for _, a := range slices.Concat(pathCalls[n], oldPathCalls[n]) {
		name := stringAt(int(tid), uintptr(arg(a.path)))
		if name == "" {
			return string(text), nil
		}
		if end, is := climbs(name); is {
			paths = append(paths, path.Clean(end))
			continue
		}
		if !path.IsAbs(name) {
			from := proc + "/cwd"
			if a.dir != noDir && int32(arg(a.dir)) != unix.AT_FDCWD {
				from = proc + "/fd/" + strconv.Itoa(int(int32(arg(a.dir))))
			}
			dir, err := os.Readlink(from)
			if err != nil {
				return string(text), nil
			}
			name = dir + "/" + name
		}
		paths = append(paths, path.Clean(name))
	}
	return string(text), paths
}

// climbs reports whether a path leads up from a directory that it names, and returns what follows.
func climbs(path string) (end string, is bool) {
	down := false
	for rest, more := path, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if part == ".." && down {
			end, is = rest, true
		}
		down = down || part != "" && part != "." && part != ".."
	}
	return end, is
}

// stringAt reads a path in the memory of a process.
func stringAt(pid int, at uintptr) string {
	buf := make([]byte, unix.PathMax)
	for n := 0; n < len(buf); {
		// One page at a time: the next one need not exist.
		size := uintptr(os.Getpagesize())
		part := buf[n:min(len(buf), n+int(size-(at+uintptr(n))%size))]
		local := []unix.Iovec{{Base: &part[0]}}
		local[0].SetLen(len(part))
		got, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at + uintptr(n), Len: len(part)}}, 0)
		if err != nil || got <= 0 {
			return ""
		}
		if end := bytes.IndexByte(part[:got], 0); end >= 0 {
			return string(buf[:n+end])
		}
		n += got
	}
	return ""
}
