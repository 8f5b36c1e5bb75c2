//go:build seccomp

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test binary is the program of process 1, so it can also be executed in the sandbox: with
// this variable it makes system calls and prints the results.
const insideEnv = "POLIS_TEST_INSIDE"

// inside runs a part of the test binary in the sandbox.
func inside(t testing.TB, s *Sandbox, part string, args ...string) (string, int) {
	t.Helper()
	return runProcess(t, s, Process{Args: append([]string{initPath}, args...), Env: []string{insideEnv + "=" + part}})
}

func insideMain(part string) {
	switch part {
	case "escape":
		out := make(map[string]string)
		for name, try := range everyEscape() {
			out[name] = verdict(try())
		}
		if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
			os.Exit(1)
		}
	case "reach":
		if err := json.NewEncoder(os.Stdout).Encode(reach(os.Args[1])); err != nil {
			os.Exit(1)
		}
	case "crash":
		abort()
	case "hog":
		hog()
	case "hold": // allocates as many MB as the argument says, until killed
		mb, _ := strconv.Atoi(os.Args[1])
		keep := make([]byte, mb<<20)
		for i := 0; i < len(keep); i += 4096 {
			keep[i] = 1
		}
		fmt.Println("held")
		time.Sleep(time.Hour)
		keep[0] = 2
	}
	os.Exit(0)
}

func hog() {
	var all [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
		if len(all) > 1<<16 {
			os.Exit(9)
		}
	}
}

func verdict(err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return "allowed"
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	default:
		return err.Error()
	}
}

// raw makes a system call by number.
func raw(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, e := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
			return e
		}
		return nil
	}
}

func cstr(s string) uintptr {
	b, _ := syscall.BytePtrFromString(s)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(b))
}

var kept []*byte

func socketOf(family, kind int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// escapes are attempts to leave the sandbox or to reach into the kernel. Each
// must be refused with EPERM, unless the table below says otherwise.
func escapes() map[string]func() error {
	tty := func(request uintptr) func() error {
		return func() error {
			fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return raw(unix.SYS_IOCTL, uintptr(fd), request, cstr("x"))()
		}
	}
	return map[string]func() error{
		"mount tmpfs":           func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
		"mount bind":            func() error { return unix.Mount("/", "/tmp", "", unix.MS_BIND, "") },
		"remount rw":            func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"umount":                func() error { return unix.Unmount("/etc/passwd", 0) },
		"umount masked":         func() error { return unix.Unmount("/proc/kcore", unix.MNT_DETACH) },
		"pivot_root":            func() error { return unix.PivotRoot("/tmp", "/tmp") },
		"chroot":                func() error { return unix.Chroot("/tmp") },
		"open_tree":             raw(unix.SYS_OPEN_TREE, ^uintptr(99), cstr("/"), 1),
		"move_mount":            raw(unix.SYS_MOVE_MOUNT, ^uintptr(99), cstr("/"), ^uintptr(99), cstr("/tmp"), 0),
		"fsopen":                raw(unix.SYS_FSOPEN, cstr("tmpfs"), 0),
		"mount_setattr":         raw(unix.SYS_MOUNT_SETATTR, ^uintptr(99), cstr("/"), 0, 0, 0),
		"unshare user":          raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"unshare mount":         raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS),
		"unshare net":           raw(unix.SYS_UNSHARE, unix.CLONE_NEWNET),
		"unshare time":          raw(unix.SYS_UNSHARE, unix.CLONE_NEWTIME),
		"unshare, high bits":    raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|1<<40),
		"clone user":            raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)),
		"clone pid":             raw(unix.SYS_CLONE, unix.CLONE_NEWPID|uintptr(unix.SIGCHLD)),
		"clone3":                raw(unix.SYS_CLONE3, 0, 0),
		"setns own":             func() error { return withFile("/proc/self/ns/net", func(fd int) error { return unix.Setns(fd, 0) }) },
		"ptrace init":           raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1),
		"pidfd_getfd":           raw(unix.SYS_PIDFD_GETFD, 0, 0, 0),
		"mknod char":            func() error { return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))) },
		"mknod block":           func() error { return unix.Mknod("/tmp/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))) },
		"keyctl":                raw(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(3), 1),
		"add_key":               raw(unix.SYS_ADD_KEY, cstr("user"), cstr("x"), cstr("y"), 1, ^uintptr(3)),
		"request_key":           raw(unix.SYS_REQUEST_KEY, cstr("user"), cstr("x"), 0, 0),
		"bpf":                   raw(unix.SYS_BPF, 0, 0, 0),
		"open_by_handle_at":     raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, cstr("12345678901234567890"), 0),
		"perf_event_open":       raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0),
		"userfaultfd":           raw(unix.SYS_USERFAULTFD, 0),
		"io_uring_setup":        raw(unix.SYS_IO_URING_SETUP, 1, 0),
		"io_uring_enter":        raw(unix.SYS_IO_URING_ENTER, 1, 0, 0, 0, 0, 0),
		"io_uring_register":     raw(unix.SYS_IO_URING_REGISTER, 1, 0, 0, 0),
		"quotactl":              raw(unix.SYS_QUOTACTL, 0, 0, 0, 0),
		"reboot":                raw(unix.SYS_REBOOT, 0, 0, 0, 0),
		"swapon":                raw(unix.SYS_SWAPON, cstr("/tmp/x"), 0),
		"acct":                  raw(unix.SYS_ACCT, 0),
		"settimeofday":          raw(unix.SYS_SETTIMEOFDAY, 0, 0),
		"clock_settime":         raw(unix.SYS_CLOCK_SETTIME, 0, 0),
		"kexec_load":            raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"init_module":           raw(unix.SYS_INIT_MODULE, 0, 0, 0),
		"finit_module":          raw(unix.SYS_FINIT_MODULE, 0, 0, 0),
		"delete_module":         raw(unix.SYS_DELETE_MODULE, 0, 0),
		"fanotify_init":         raw(unix.SYS_FANOTIFY_INIT, 0, 0),
		"syslog":                raw(unix.SYS_SYSLOG, 3, 0, 0),
		"sethostname":           func() error { return unix.Sethostname([]byte("x")) },
		"personality, odd":      raw(unix.SYS_PERSONALITY, 0x0400000),
		"socket vsock":          socketOf(unix.AF_VSOCK, unix.SOCK_STREAM),
		"socket vsock, high":    raw(unix.SYS_SOCKET, unix.AF_VSOCK|1<<40, unix.SOCK_STREAM, 0),
		"socket alg":            socketOf(unix.AF_ALG, unix.SOCK_SEQPACKET),
		"socket packet":         socketOf(unix.AF_PACKET, unix.SOCK_RAW),
		"socket raw":            raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"setuid root":           func() error { return unix.Setreuid(0, 0) },
		"setgid root":           func() error { return unix.Setregid(0, 0) },
		"setgroups":             func() error { return unix.Setgroups([]int{0}) },
		"TIOCSTI":               tty(unix.TIOCSTI),
		"TIOCSTI, high bits":    tty(unix.TIOCSTI | 1<<40),
		"TIOCLINUX":             tty(unix.TIOCLINUX),
		"oom score":             func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0) },
		"read init memory":      readable("/proc/1/mem"),
		"read init environment": readable("/proc/1/environ"),
		"look through init":     readable("/proc/1/root/etc/passwd"),
		"write sysctl":          writable("/proc/sys/kernel/core_pattern"),
		"sysrq":                 writable("/proc/sysrq-trigger"),
		"write cgroup limit":    writable("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
		"leave cgroup":          writable("/sys/fs/cgroup/memory/cgroup.procs"),
		"write /usr":            writable("/usr/bin/x"),
		"write /":               writable("/x"),
		"write /etc":            writable("/etc/hosts"),
		"write own init":        writable(initPath),
		"write api directory":   writable("/run/polis/x"),
		"write /run":            writable("/run/x"),
		"read shadow":           func() error { b, err := os.ReadFile("/etc/shadow"); return emptyOrErr(b, err) },
		"open disk":             readable("/dev/vda"),
		"open kernel memory":    readable("/dev/mem"),
		"open kernel log":       readable("/dev/kmsg"),
	}
}

// Refusals that are not EPERM, and why.
var otherwise = map[string][]string{
	"clone3":                {"ENOSYS"},                     // so that C libraries fall back to clone
	"oom score":             {"EACCES"},                     // the kernel's choice
	"read init memory":      {"EACCES"},                     // not dumpable, hence root's
	"read init environment": {"EACCES"},                     //
	"look through init":     {"EACCES"},                     //
	"write sysctl":          {"EROFS", "EACCES"},            // read-only mount, or the file's own mode first
	"sysrq":                 {"EROFS", "EACCES", "ENOENT"},  //
	"write cgroup limit":    {"EROFS", "EACCES", "ENOENT"},  // v1's name
	"leave cgroup":          {"EROFS", "EACCES", "ENOENT"},  //
	"write /usr":            {"EROFS"},                      //
	"write /":               {"EROFS"},                      //
	"write /etc":            {"EROFS", "EACCES"},            //
	"write own init":        {"EROFS", "EACCES", "ETXTBSY"}, //
	"write api directory":   {"EROFS"},                      //
	"write /run":            {"EACCES"},                     // root's
	"read shadow":           {"EACCES", "empty"},            // masked
	"open disk":             {"ENOENT"},                     // no such node
	"open kernel memory":    {"ENOENT"},                     //
	"open kernel log":       {"ENOENT"},                     //
}

func emptyOrErr(b []byte, err error) error {
	if err == nil && len(b) == 0 {
		return errors.New("empty")
	}
	return err
}

func readable(p string) func() error {
	return func() error {
		f, err := os.Open(p)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func writable(p string) func() error {
	return func() error {
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func withFile(p string, fn func(fd int) error) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(int(f.Fd()))
}

// Feature: multi-agent-workspaces, Property 27: PID Namespace Isolation (Full Mode)
func TestEscapesAreRefused(t *testing.T) {
	s := create(t, testConfig(t))
	requireEscapesFail(t, s)
	requireAudits(t, s)
}
