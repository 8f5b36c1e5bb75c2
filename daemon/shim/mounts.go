package shim

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// mountedBy reports whether the topmost mount at path has the given source. It reads the kernel's
// table (proc_pid_mountinfo(5)): a stat of a dead FUSE mount fails. It reads that of this thread:
// another one of this process may be in a sandbox's mount namespace.
func mountedBy(path, source string) (bool, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	found := false
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 10 || unescape(fields[4]) != path {
			continue
		}
		for i, w := range fields {
			if w == "-" && i+2 < len(fields) {
				found = unescape(fields[i+2]) == source && strings.HasPrefix(fields[i+1], "fuse")
			}
		}
	}
	return found, sc.Err()
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
