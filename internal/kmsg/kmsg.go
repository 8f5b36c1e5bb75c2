package kmsg

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"polis/internal/need"
)

// NoWarnings requires that the kernel writes no warning about a file system (WARN_ON in fs/) from now to the end of
// the test, for whatever program. A warning taints the kernel, and stops a machine with panic_on_warn.
func NoWarnings(t testing.TB) {
	t.Helper()
	need.Root(t)
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(&os.PathError{Op: "open", Path: "/dev/kmsg", Err: err})
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		t.Fatal(&os.PathError{Op: "lseek", Path: "/dev/kmsg", Err: err})
	}
	t.Cleanup(func() {
		defer unix.Close(fd)
		for _, w := range warnings(t, fd) {
			t.Errorf("the kernel warns:\n%s", w)
		}
	})
}

// warnings returns the warnings that follow in the log, each with its lines.
func warnings(t testing.TB, fd int) []string {
	t.Helper()
	var all []string
	in := false
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all
		case errors.Is(err, unix.EPIPE): // older records were overwritten
			continue
		case err != nil:
			t.Fatal(&os.PathError{Op: "read", Path: "/dev/kmsg", Err: err})
		}
		// "priority,sequence,time,flags;text", and lines with more about it.
		_, text, _ := strings.Cut(string(buf[:n]), ";")
		line, _, _ := strings.Cut(text, "\n")
		switch {
		case strings.HasPrefix(line, "WARNING: ") && strings.Contains(line, " fs/"):
			all, in = append(all, line), true
		case strings.HasPrefix(line, "---[ end trace"), strings.HasPrefix(line, "------------[ cut here"):
			in = false
		case in:
			all[len(all)-1] += "\n" + line
		}
	}
}
