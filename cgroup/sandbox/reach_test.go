//go:build seccomp

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// everyEscape is the table of escapes with what was added to it here.
func everyEscape() map[string]func() error {
	all := escapes()
	maps.Copy(all, reaches())
	return all
}

// reaches are attempts to reach the kernel's network, its counters and process
// 1's limits. Each must be refused as escapes are.
func reaches() map[string]func() error {
	limit := func(pid, resource int, value uint64) func() error {
		return func() error {
			return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
		}
	}
	lo := func() netlink.Link { return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}} }
	return map[string]func() error{
		"netlink: add a link": func() error { return netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "polis0"}}) },
		"netlink: link down":  func() error { return netlink.LinkSetDown(lo()) },
		"netlink: add an address": func() error {
			return netlink.AddrAdd(lo(), &netlink.Addr{IPNet: netlink.NewIPNet(net.IPv4(10, 1, 1, 1))})
		},
		"netlink: add a route": func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: 1, Dst: netlink.NewIPNet(net.IPv4(10, 2, 2, 2))})
		},
		"netlink: audit":            raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		"netlink: nftables":         raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		"netlink: generic":          raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC),
		"netlink: device events":    raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"netlink: xfrm":             raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM),
		"netlink, high bits":        raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE|1<<40),
		"socket raw, any":           raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW),
		"socket raw, IPv6":          raw(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
		"socket raw, close-on-exec": raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP),
		"socket old packet":         raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_PACKET, 0x300),
		"socket packet, datagram":   socketOf(unix.AF_PACKET, unix.SOCK_DGRAM),
		"socket sctp":               raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
		"socket l2tp":               raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, 115),
		"socket dccp":               raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP),
		"socket xdp":                socketOf(unix.AF_XDP, unix.SOCK_RAW),
		"socket bluetooth":          socketOf(unix.AF_BLUETOOTH, unix.SOCK_RAW),
		"socket can":                socketOf(unix.AF_CAN, unix.SOCK_RAW),
		"socket tipc":               socketOf(unix.AF_TIPC, unix.SOCK_DGRAM),
		"socket rds":                socketOf(unix.AF_RDS, unix.SOCK_SEQPACKET),
		"socket key":                socketOf(unix.AF_KEY, unix.SOCK_RAW),
		"socket kcm":                socketOf(unix.AF_KCM, unix.SOCK_DGRAM),
		"process 1: time limit":     limit(1, unix.RLIMIT_CPU, 0),
		"own limit by number":       limit(os.Getpid(), unix.RLIMIT_NOFILE, 100),
		"raise the file limit":      limit(0, unix.RLIMIT_NOFILE, 1<<30),
		"process_vm_readv of init":  vmRead(1),
		"pidfd_getfd of init":       raw(unix.SYS_PIDFD_GETFD, 0, 0, 0),
		"kcmp":                      raw(unix.SYS_KCMP, 1, 1, 0, 0, 0),
		"process_madvise":           raw(unix.SYS_PROCESS_MADVISE, 0, 0, 0, 0, 0),
		"kexec_file_load":           raw(unix.SYS_KEXEC_FILE_LOAD, 0, 0, 0, 0, 0),
		"swapoff":                   raw(unix.SYS_SWAPOFF, cstr("/dev/vda")),
		"iopl":                      raw(unix.SYS_IOPL, 3),
		"ioperm":                    raw(unix.SYS_IOPERM, 0, 1, 1),
		"mbind":                     raw(unix.SYS_MBIND, 0, 0, 0, 0, 0, 0),
		"vhangup":                   raw(unix.SYS_VHANGUP),
		"sethostname":               func() error { return unix.Sethostname([]byte("x")) },
		"setdomainname":             func() error { return unix.Setdomainname([]byte("x")) },
		"TIOCSTI of own terminal":   stuffTerminal,
		"mount by propagation":      func() error { return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "") },
		"fspick":                    raw(unix.SYS_FSPICK, ^uintptr(99), cstr("/"), 0),
		"fsmount":                   raw(unix.SYS_FSMOUNT, 0, 0, 0),
		"clone cgroup":              raw(unix.SYS_CLONE, unix.CLONE_NEWCGROUP|uintptr(unix.SIGCHLD)),
		"unshare pid":               raw(unix.SYS_UNSHARE, unix.CLONE_NEWPID),
	}
}

// vmRead copies a word out of another process.
func vmRead(pid int) func() error {
	return func() error {
		var word uint64
		local := unix.Iovec{Base: (*byte)(unsafe.Pointer(&word)), Len: 8}
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&word)), Len: 8}}, 0)
		return err
	}
}

// stuffTerminal tries on a terminal that the process leads, which the kernel
// itself would allow.
func stuffTerminal() error {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
	if errors.Is(err, unix.ENXIO) {
		fd, err = unix.Open("/dev/ptmx", unix.O_RDWR, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return raw(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, cstr("x"))()
}

// Programs of another word size would make calls by other numbers: they end.
func TestOtherCallingConventionsEndTheProgram(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs a program with one thread that can make any call: python3")
	}
	s := create(t, testConfig(t))
	// getpid of x32, which has 64 bit numbers of its own.
	out, code := run(t, s, "python3", "-c", "import ctypes; print(ctypes.CDLL(None).syscall(0x40000000 | 39))")
	require.Equal(t, 128+int(unix.SIGSYS), code, out)
}

// reached is what a process finds when it goes through everything it sees.
type reached struct {
	Writable  []string // of /proc (but its own and its neighbours'), /sys and the control groups
	Made      []string // control groups
	Peers     []string // mounts that pass on what is mounted elsewhere
	Unsafe    []string // mounts with devices or setuid programs
	Marked    []string // processes whose memory, environment or command has the mark
	Devices   []string // nodes in /dev
	Abstract  string   // connecting to an abstract name of the host's
	Core      unix.Rlimit
	CoreAfter unix.Rlimit // after trying to change it
	Cores     []string    // errors of those tries
}

func reach(mark string) reached {
	var r reached
	for _, top := range []string{"/proc", "/sys"} {
		_ = filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
			if err != nil || p == top {
				return nil //nolint:nilerr // what cannot be listed cannot be reached
			}
			name := e.Name()
			if top == "/proc" && filepath.Dir(p) == top && (name[0] >= '1' && name[0] <= '9' || name == "self" || name == "thread-self") {
				return fs.SkipDir
			}
			if e.IsDir() {
				if d := filepath.Join(p, "polis-test-made"); os.Mkdir(d, 0o755) == nil {
					r.Made = append(r.Made, d)
				}
				return nil
			}
			if fd, err := unix.Open(p, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				var st unix.Stat_t
				if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR { // else masked by /dev/null
					r.Writable = append(r.Writable, p)
				}
				unix.Close(fd)
			}
			return nil
		})
	}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) > 6 {
			r.Peers = append(r.Peers, line)
		}
		options := "," + f[5] + ","
		// Exempt: /dev, which only root writes to; what covers a masked file or
		// directory; and the root, which has nothing but mount points.
		mask := f[3] == "/null" || strings.Contains(after, "nr_inodes=1")
		device := f[4] == "/dev" || strings.HasPrefix(f[4], "/dev/pts")
		if f[4] != "/" && !mask && (!strings.Contains(options, ",nosuid,") || !strings.Contains(options, ",nodev,") && !device) {
			r.Unsafe = append(r.Unsafe, f[4]+" "+f[5]+" "+after)
		}
	}
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range pids {
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, f := range []string{"environ", "cmdline", "comm"} {
			if b, err := os.ReadFile(filepath.Join(p, f)); err == nil && strings.Contains(string(b), mark) {
				r.Marked = append(r.Marked, p)
			}
		}
		if fi, err := os.Stat(filepath.Join(p, "root", mark)); err == nil {
			r.Marked = append(r.Marked, fi.Name())
		}
	}
	entries, _ := os.ReadDir("/dev")
	for _, e := range entries {
		if e.Type()&fs.ModeDevice != 0 {
			r.Devices = append(r.Devices, e.Name())
		}
	}
	c, err := net.Dial("unix", "@"+mark)
	r.Abstract = verdict(err)
	if err == nil {
		c.Close()
	}
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &r.Core)
	for _, v := range []uint64{0, unix.RLIM_INFINITY, 1 << 20} {
		rl := unix.Rlimit{Cur: v, Max: v}
		r.Cores = append(r.Cores, verdict(unix.Prlimit(0, unix.RLIMIT_CORE, &rl, nil)),
			verdict(raw(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&rl)))()))
		_ = raw(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE|1<<40, uintptr(unsafe.Pointer(&rl)))()
		_ = raw(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE|1<<40, uintptr(unsafe.Pointer(&rl)), 0)()
		_ = raw(unix.SYS_PRLIMIT64, 1<<40, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&rl)), 0)()
	}
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &r.CoreAfter)
	return r
}

// Feature: multi-agent-workspaces, Property 27: PID Namespace Isolation (Full Mode)
func TestNothingOfOthersIsWithinReach(t *testing.T) {
	mark := "polis-mark-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+mark)
	require.NoError(t, err)
	defer l.Close()
	s, other := create(t, testConfig(t)), create(t, testConfig(t))
	neighbour, err := other.Start(Process{Args: []string{"sleep", "3600"}, Env: []string{"MARK=" + mark}})
	require.NoError(t, err)
	_, code := run(t, other, "touch", "/tmp/"+mark)
	require.Zero(t, code)

	out, code := inside(t, s, "reach", mark)
	require.Equal(t, 0, code, out)
	var r reached
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.Empty(t, r.Writable, "files of /proc and /sys that an agent may write to")
	require.Empty(t, r.Made)
	require.Empty(t, r.Peers, "mounts that propagate")
	require.Empty(t, r.Unsafe)
	require.Empty(t, r.Marked)
	require.ElementsMatch(t, []string{"full", "null", "random", "tty", "urandom", "zero"}, r.Devices)
	require.Equal(t, "ECONNREFUSED", r.Abstract, "an abstract name of the host")
	one := unix.Rlimit{Cur: 1, Max: 1}
	require.Equal(t, one, r.Core)
	require.Equal(t, one, r.CoreAfter)
	for _, v := range r.Cores {
		require.Equal(t, "allowed", v, "disabling cores returns success")
	}

	// By every number there can be, and by name.
	for _, script := range []string{
		"kill -9 -1", "pkill -9 sleep; true", "killall -9 sleep 2>/dev/null; true",
		"for p in " + strconv.Itoa(neighbour.Pid()) + " " + strconv.Itoa(os.Getpid()) + " 2 3 4 5 6 7 8 9; do kill -9 $p 2>/dev/null; done; true",
	} {
		_, _ = run(t, s, "/bin/sh", "-c", script)
	}
	select {
	case <-neighbour.Done():
		t.Fatal("a process of another agent was killed")
	case <-s.Done():
		t.Fatal("process 1 was killed")
	case <-other.Done():
		t.Fatal("the other agent's process 1 was killed")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, neighbour.Signal(0))
}

// Feature: multi-agent-workspaces, Property 27: PID Namespace Isolation (Full Mode)
func TestQueuesAndSharedMemoryAreNotTheHosts(t *testing.T) {
	key := 0x706f0000 + os.Getpid()&0xffff
	id, _, e := unix.Syscall(unix.SYS_SHMGET, uintptr(key), 4096, 0o666|unix.IPC_CREAT)
	require.Zero(t, e)
	defer func() { _, _, _ = unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0) }()
	s := create(t, testConfig(t))
	require.NotContains(t, sh(t, s, "ipcs -m; cat /proc/sysvipc/shm"), fmt.Sprintf("%08x", key))
	require.NotContains(t, sh(t, s, "cat /proc/sysvipc/shm"), strconv.Itoa(key))
}

func TestCrashLeavesNoCore(t *testing.T) {
	s := create(t, testConfig(t))
	out, code := runProcess(t, s, Process{Args: []string{initPath}, Env: []string{insideEnv + "=crash"}, Cwd: "/tmp"})
	require.Equal(t, 128+int(unix.SIGSEGV), code, out)
	require.Empty(t, sh(t, s, "ls -A /tmp"))
	require.Contains(t, sh(t, s, "ulimit -c 0 && ulimit -c unlimited; cat /proc/self/limits"), "Max core file size        1                    1 ")
}

// abort ends the process as a wild pointer would.
func abort() {
	runtime.LockOSThread()
	// Not for Go's handler: the kernel's own action.
	type sigaction struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}
	var dfl sigaction
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSEGV), uintptr(unsafe.Pointer(&dfl)), 0, 8, 0, 0)
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSEGV)
	os.Exit(1)
}

func TestProgramsThatOrdinaryWorkNeedsAreNotRefused(t *testing.T) {
	s := create(t, testConfig(t))
	require.Equal(t, "4", sh(t, s, `ulimit -n 4096 && bash -c 'echo $((2+2))'`))
	sh(t, s, "getent hosts localhost && ip -o address show dev lo")
	if _, err := exec.LookPath("python3"); err == nil {
		require.Equal(t, "ran", sh(t, s, `python3 -c '
import os
fd = os.memfd_create("prog"); os.write(fd, open("/bin/echo", "rb").read())
os.execv("/proc/self/fd/%d" % fd, ["echo", "ran"])'`), "a program in memory")
		sh(t, s, `python3 -c '
import socket, resource
for f, k, p in ((socket.AF_INET, socket.SOCK_STREAM, 0), (socket.AF_INET6, socket.SOCK_STREAM, 6), (socket.AF_INET, socket.SOCK_DGRAM, 17),
    (socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, 0), (socket.AF_UNIX, socket.SOCK_SEQPACKET, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 0)):
    socket.socket(f, k, p).close()
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))'`)
	}
	for program, script := range map[string]string{
		"strace":  `strace -f -o /tmp/trace sh -c 'cat /dev/null' && grep -q execve /tmp/trace`,
		"gdb":     `sleep 60 >/dev/null 2>&1 & gdb -q -batch -nx -p $! -ex 'info registers rip' >/tmp/gdb 2>&1; kill $!; grep '^rip' /tmp/gdb`,
		"prlimit": `prlimit --nofile=128 sh -c 'test $(ulimit -n) = 128'`,
	} {
		if _, err := exec.LookPath(program); err == nil {
			sh(t, s, script)
		}
	}
}

// A program that opens too many files meets its own limit before its supervisor,
// which has a descriptor for each of them, meets its.
func TestAProgramMeetsItsOwnFileLimitFirst(t *testing.T) {
	var own unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	require.LessOrEqual(t, MaxFiles(), own.Max/2)
	require.Positive(t, MaxFiles())
	s := create(t, testConfig(t))
	require.Equal(t, strconv.FormatUint(MaxFiles(), 10), sh(t, s, "ulimit -Hn"))
}
