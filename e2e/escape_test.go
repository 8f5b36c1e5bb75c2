package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEscapesAreRefused tries the known ways out of the sandbox, as an agent. A script that prints
// ESCAPED has found one.
func TestEscapesAreRefused(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\n"})
	project := d.up()
	outside := d.path("outside.txt")
	require.NoError(t, os.WriteFile(outside, []byte("outside\n"), 0o666))
	require.NoError(t, os.Chmod(outside, 0o666))
	d.add("bob")
	d.add("alice", "--read", "**", "--write", "**", "--deny", "secret/**")
	abstract := "polis-e2e-" + filepath.Base(d.dir)
	l, err := net.Listen("unix", "@"+abstract)
	require.NoError(t, err)
	defer l.Close()
	d.sh("bob", "cp /bin/sleep /tmp/bob-sleeps && SECRET=of-bob setsid /tmp/bob-sleeps 3600 </dev/null >/dev/null 2>&1 &")
	d.eventually("bob sleeps", func() bool { return d.exec("bob", "pgrep", "-x", "bob-sleeps").code == 0 })
	pids := hostPids("bob-sleeps")
	require.NotEmpty(t, pids)
	python := func(body string) []string { return []string{"/usr/bin/python3", "-c", preamble + body} }
	for _, c := range []struct {
		name    string
		command []string
	}{
		{"symlink to an absolute path", []string{"sh", "-c", "ln -sf " + outside + " l; cat l && echo ESCAPED"}},
		{"symlink upwards", []string{"sh", "-c", "ln -sf ../../../../../../../.." + outside + " l2; cat l2 && echo ESCAPED"}},
		{"dot dot", []string{"sh", "-c", "cat ../../outside.txt ../outside.txt && echo ESCAPED"}},
		{"root of process one", []string{"sh", "-c", "ls /proc/1/root" + d.dir + "/run && echo ESCAPED"}},
		{"own root", []string{"sh", "-c", "cat /proc/self/root" + outside + " && echo ESCAPED"}},
		{"descriptors of process one", []string{"sh", "-c", "for f in /proc/1/fd/*; do cat $f/../../outside.txt 2>/dev/null && echo ESCAPED; done; exit 1"}},
		{"the other agent's worktree", []string{"sh", "-c", "ls " + d.path("ws", ".polis", "worktrees", "bob") + "/README.md && echo ESCAPED"}},
		{"hard link from a denied name", []string{"sh", "-c", "ln secret/key.txt open.txt && cat open.txt && echo ESCAPED"}},
		{"rename from a denied directory", []string{"sh", "-c", "mv secret/key.txt open2.txt && cat open2.txt && echo ESCAPED"}},
		{"rename of the denied directory", []string{"sh", "-c", "mv secret public && cat public/key.txt && echo ESCAPED"}},
		{"rename of a parent of what is denied", python(`
os.mkdir("p")
try:
    os.rename("secret", "p/secret"); print(open("p/secret/key.txt").read()); print("ESCAPED")
except OSError as e: print(e)
`)},
		{"RENAME_EXCHANGE", python(`
open("swap.txt", "w").write("x")
r = libc.renameat2(AT_FDCWD, b"swap.txt", AT_FDCWD, b"secret/key.txt", 2)
print(r, "ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
`)},
		{"RENAME_EXCHANGE of directories", python(`
os.makedirs("pub", exist_ok=True)
r = libc.renameat2(AT_FDCWD, b"pub", AT_FDCWD, b"secret", 2)
print(r, "ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
`)},
		{"O_TMPFILE and linkat into a denied directory", python(`
try:
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, b"x")
    r = libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"secret/new.txt", 0x400)
    print(r, "ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
except OSError as e: print(e)
`)},
		{"open_by_handle_at", python(`
h = (ctypes.c_ubyte * 136)(); ctypes.c_uint.from_buffer(h).value = 128
mid = ctypes.c_int()
r = libc.name_to_handle_at(AT_FDCWD, b"main.txt", h, ctypes.byref(mid), 0)
fd = os.open(".", os.O_RDONLY)
r = libc.open_by_handle_at(fd, h, 0)
print(r, "ESCAPED" if r >= 0 else os.strerror(ctypes.get_errno()))
`)},
		{"mount", python(`
r = libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None); print("ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
r = libc.umount2(os.getcwdb(), 2); print("ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
`)},
		{"unshare", python(`
for f in (0x10000000, 0x00020000, 0x40000000, 0x20000000):
    r = libc.unshare(f); print(hex(f), "ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
`)},
		{"clone with new user namespace", []string{"sh", "-c", "unshare -Ur true && echo ESCAPED"}},
		{"setns", python(`
for ns in ("mnt", "net", "pid", "user"):
    try:
        fd = os.open("/proc/1/ns/" + ns, os.O_RDONLY); r = libc.setns(fd, 0); print("ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
    except OSError as e: print(e)
`)},
		{"ptrace of process one", python(`
r = libc.ptrace(16, 1, 0, 0); print("ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
`)},
		{"device nodes", []string{"sh", "-c", "mknod d b 8 0 && echo ESCAPED; mknod /tmp/d c 1 1 && echo ESCAPED"}},
		{"setuid", []string{"sh", "-c", "cp /bin/sh s && chmod 4755 s && ./s -pc 'id -u' | grep -qx 0 && echo ESCAPED; sudo -n true 2>/dev/null && echo ESCAPED; su -c true </dev/null 2>/dev/null && echo ESCAPED"}},
		{"chroot", python(`
r = libc.chroot(b"/tmp"); print("ESCAPED" if r == 0 else os.strerror(ctypes.get_errno()))
`)},
		{"bpf, keyring, kexec, modules", python(`
for n in (321, 250, 248, 246, 175, 313, 323, 298):
    r = libc.syscall(n, 0, 0, 0, 0, 0); print(n, "ESCAPED" if r >= 0 else os.strerror(ctypes.get_errno()))
`)},
		{"the daemon's socket", []string{"sh", "-c", "curl -sS --max-time 2 --unix-socket " + d.path("run", "polisd.sock") + " http://p/v1/status && echo ESCAPED"}},
		{"the shim's sockets", []string{"sh", "-c", "find / -xdev -name '*.sock' 2>/dev/null | grep -E 'shim.sock|lockd.sock|polisd.sock' && echo ESCAPED"}},
		{"control groups", []string{"sh", "-c", "find /sys/fs/cgroup -name cgroup.procs -o -name memory.limit_in_bytes 2>/dev/null | while read f; do test -w $f && echo ESCAPED; done"}},
		{"kernel memory", []string{"sh", "-c", "head -c1 /dev/mem /dev/kmem /proc/kcore 2>/dev/null | grep -q . && echo ESCAPED; dmesg >/dev/null 2>&1 && echo ESCAPED"}},
		{"kill and pkill of others", []string{"sh", "-c", "pkill -9 bob-sleeps && echo ESCAPED; kill -9 " + pids + " && echo ESCAPED; kill -9 -1; true"}},
		{"memory of others", python(`
for p in os.listdir("/proc"):
    if p.isdigit() and int(p) != os.getpid():
        for f in ("mem", "environ", "cmdline", "root/etc/hostname", "cwd/README.md"):
            try:
                b = open("/proc/%s/%s" % (p, f), "rb").read(4096)
                if b"of-bob" in b or b"bob-sleeps" in b or b"bob" == b.strip(): print(p, f, "ESCAPED")
            except OSError as e: pass
`)},
		{"ptrace of every number there can be", python(`
for pid in list(range(1, 64)) + [int(p) for p in "` + pids + `".split()]:
    if pid == os.getpid(): continue
    if libc.ptrace(16, pid, 0, 0) == 0: print(pid, "ESCAPED")
`)},
		{"io_uring open of a denied path", python(`
p = (ctypes.c_ubyte * 120)()
r = libc.syscall(425, 8, p); print(r, "ESCAPED" if r >= 0 else os.strerror(ctypes.get_errno()))
`)},
		{"keyrings", python(`
for n, a in ((248, (b"user", b"polis", b"x", 1, -3)), (249, (b"user", b"polis", None, 0)), (250, (0, -3, 1)), (250, (11, -4, None, 0))):
    r = libc.syscall(n, *a); print(n, "ESCAPED" if r >= 0 else os.strerror(ctypes.get_errno()))
`)},
		{"an abstract socket of the host", python(`
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\0` + abstract + `"); print("ESCAPED")
except OSError as e: print(e)
`)},
		{"routes, addresses and raw packets", []string{"sh", "-c", "ip link set lo down && echo ESCAPED; ip route add 10.9.9.0/24 dev lo && echo ESCAPED; ip address add 10.9.9.9/24 dev eth0 && echo ESCAPED; ip route del default && echo ESCAPED; nft list ruleset && echo ESCAPED; true"}},
		{"raw sockets", python(`
import socket
for a in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 3), (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_NETLINK, socket.SOCK_RAW, 12), (40, socket.SOCK_STREAM, 0)):
    try: socket.socket(*a); print(a, "ESCAPED")
    except OSError as e: print(e)
`)},
		{"leaving the control group", python(`
for top, dirs, files in os.walk("/sys/fs/cgroup"):
    for f in files:
        try:
            os.close(os.open(os.path.join(top, f), os.O_WRONLY)); print(top, f, "ESCAPED")
        except OSError: pass
    try: os.mkdir(os.path.join(top, "x")); print(top, "ESCAPED")
    except OSError: pass
for f in ("release_agent", "notify_on_release", "cgroup.procs", "tasks"): print(f)
`)},
		{"mount propagation", []string{"sh", "-c", "grep -E ' (shared|master|propagate_from):' /proc/self/mountinfo && echo ESCAPED; mount --make-rshared / && echo ESCAPED; true"}},
		{"a core for the host's handler", []string{"sh", "-c", "ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls core* 2>/dev/null && echo ESCAPED; grep -q 'Max core file size *1 *1 ' /proc/self/limits || echo ESCAPED; echo '|/bin/sh' > /proc/sys/kernel/core_pattern && echo ESCAPED; true"}},
		{"settings of the kernel", []string{"sh", "-c", "for f in kernel/core_pattern kernel/modprobe kernel/hostname net/ipv4/ip_forward vm/overcommit_memory kernel/randomize_va_space; do test -w /proc/sys/$f && echo ESCAPED; done; find /sys -type f -writable 2>/dev/null | grep -q . && echo ESCAPED; echo b > /proc/sysrq-trigger && echo ESCAPED; true"}},
		{"messages of the kernel", []string{"sh", "-c", "dmesg && echo ESCAPED; head -c1 /dev/kmsg && echo ESCAPED; echo x > /dev/kmsg && echo ESCAPED; head -c1 /proc/kmsg | grep -q . && echo ESCAPED; true"}},
		{"setuid programs in every place that can be written to", []string{"sh", "-c", "for d in . /tmp /var/tmp $HOME $XDG_RUNTIME_DIR /dev/shm; do cp /usr/bin/id $d/idd && chmod 6755 $d/idd; $d/idd -u | grep -qx 0 && echo ESCAPED; rm -f $d/idd; done; findmnt -rno TARGET,OPTIONS | grep -v nosuid | grep -vE '^(/ |/proc/|/sys/|/etc/)' && echo ESCAPED; true"}},
		{"a node copied into the view", []string{"sh", "-c", "cp -a /dev/zero zero && echo ESCAPED; cp -a /dev/zero /tmp/zero && head -c1 /tmp/zero && echo ESCAPED; mknod w c 0 0 && head -c1 w && echo ESCAPED; true"}},
		{"quota, swap, clock, reboot", python(`
for n, a in ((179, (0, 0, 0, 0)), (167, (b"/tmp/x", 0)), (164, (0, 0)), (227, (0, 0)), (169, (0, 0, 0, 0)), (170, (b"x", 1))):
    r = libc.syscall(n, *a); print(n, "ESCAPED" if r >= 0 else os.strerror(ctypes.get_errno()))
`)},
		{"terminal injection", python(`
import fcntl, pty
m, s = pty.openpty()
try:
    fcntl.ioctl(s, 0x5412, b"x"); print("ESCAPED")
except OSError as e: print(e)
`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := d.exec("alice", c.command...)
			require.NotContains(t, r.stdout, "ESCAPED", r.String())
			require.NotContains(t, r.stdout, "outside\n")
			require.NotContains(t, r.stdout, "secret\n")
		})
	}
	for _, what := range []string{"open_by_handle_at", "mount", "umount2", "unshare (CLONE_NEWUSER)", "unshare (CLONE_NEWNS)", "unshare (CLONE_NEWPID)",
		"unshare (CLONE_NEWNET)", "chroot", "bpf (command 0x0)", "keyctl (command 0x0)", "keyctl (command 0xb)", "add_key", "request_key", "kexec_load",
		"init_module", "finit_module", "userfaultfd", "perf_event_open (process 0, processor 0)", "io_uring_setup",
		"socket (AF_INET, SOCK_RAW, protocol 1)", "socket (AF_PACKET, SOCK_RAW, protocol 3)", "socket (AF_INET, SOCK_RAW, protocol 255)",
		"socket (AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER)", "socket (AF_VSOCK, SOCK_STREAM)", "mount (MS_REC|MS_SHARED)", "quotactl (command 0x0)",
		"swapon", "settimeofday", "clock_settime", "reboot (command 0x0)", "sethostname", "ioctl (TIOCSTI)"} {
		d.eventually(what+" is reported", func() bool { return len(d.refusedCalls("alice")[what]) > 0 })
	}
	require.Empty(t, d.refusedCalls("bob"))
	b, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "outside\n", string(b))
	b, err = os.ReadFile(filepath.Join(project, "secret/key.txt"))
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(b))
	require.NotEmpty(t, d.must("status"), "the daemon lives")
	// Feature: multi-agent-workspaces, Property 27: PID Namespace Isolation (Full Mode)
	require.Equal(t, pids, hostPids("bob-sleeps"), "a process of another agent was killed")
}

// hostPids lists the processes of that name, as the host counts them.
func hostPids(comm string) string {
	var out []string
	for _, p := range glob("/proc/[0-9]*") {
		if strings.TrimSpace(readFile(filepath.Join(p, "comm"))) == comm {
			out = append(out, filepath.Base(p))
		}
	}
	return strings.Join(out, " ")
}

// preamble gives the scripts the C library.
const preamble = `
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
`

// TestSwappedSymlink replaces a directory by a symlink out of the tree while files below it are
// read. It reads also from the host's side, where no sandbox helps.
func TestSwappedSymlink(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"0s\"\n"})
	d.up()
	a := d.add("alice")
	outside := d.path("outside")
	require.NoError(t, os.MkdirAll(outside, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("outside\n"), 0o644))
	require.NoError(t, os.Chown(filepath.Join(outside, "f"), owner, owner))
	r := d.exec("alice", "/usr/bin/python3", "-c", preamble+`
import threading, time, sys
os.makedirs("real", exist_ok=True); open("real/f", "w").write("inside\n")
os.symlink("`+outside+`", "link")
stop = False
def swap():
    while not stop:
        libc.renameat2(AT_FDCWD, b"real", AT_FDCWD, b"link", 2)
t = threading.Thread(target=swap); t.start()
end = time.time() + 3; bad = ok = 0
while time.time() < end:
    try:
        s = open("real/f").read()
        if "outside" in s: bad += 1
        else: ok += 1
        open("real/f", "r+").close()
    except OSError: pass
stop = True; t.join()
print("bad", bad, "ok" if ok else "never")
`)
	require.Zero(t, r.code, r.String())
	require.Contains(t, r.stdout, "bad 0 ok", r.String())
	require.DirExists(t, a.WorktreePath)
	b, err := os.ReadFile(filepath.Join(outside, "f"))
	require.NoError(t, err)
	require.Equal(t, "outside\n", string(b))
}
