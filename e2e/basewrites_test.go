package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyWay tries to change files in every way that a program has, and reads them through descriptors
// and mappings from before. What fails is printed; what matters is what the others see.
const everyWay = `
import ctypes, errno, fcntl, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, f):
    try:
        f()
        print(name, "done")
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
def libcall(n):
    if n < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
def put(path, flags, data=b"changed"):
    fd = os.open(path, flags, 0o644)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
for p in sys.argv[1:]:
    early = os.open(p, os.O_RDONLY)
    proc = "/proc/self/fd/%d" % early
    view = mmap.mmap(early, 0, prot=mmap.PROT_READ)
    first = bytes(view[:8])
    attempt("link", lambda: (os.link(p, p + ".link"), put(p + ".link", os.O_WRONLY | os.O_APPEND)))
    attempt("link of the descriptor", lambda: (os.link(proc, p + ".fd", follow_symlinks=True), put(p + ".fd", os.O_WRONLY)))
    attempt("write a descriptor for reading", lambda: os.write(early, b"x"))
    attempt("reopen the descriptor", lambda: put(proc, os.O_RDWR))
    attempt("truncate the descriptor", lambda: os.ftruncate(early, 1))
    attempt("chmod the descriptor", lambda: os.fchmod(early, 0o777))
    attempt("time of the descriptor", lambda: os.utime(early, (1, 1)))
    attempt("attribute of the descriptor", lambda: os.setxattr(early, "user.x", b"x"))
    attempt("flags of the descriptor", lambda: fcntl.ioctl(early, 0x40086602, bytearray(8)))
    def shared_mapping():
        fd = os.open(p, os.O_RDWR)
        m = mmap.mmap(fd, 0)
        m[0:7] = b"mapping"
        m.flush()
        os.close(fd)
        m[0:7] = b"MAPPING"
        m.flush()
    attempt("shared mapping", shared_mapping)
    def writable_mapping_of_early():
        mmap.mmap(early, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    attempt("writable mapping of the descriptor", writable_mapping_of_early)
    def clone(op):
        fd = os.open(p + ".clone", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            op(fd)
            os.pwrite(fd, b"cloned", 0)
        finally:
            os.close(fd)
    attempt("clone", lambda: clone(lambda fd: fcntl.ioctl(fd, 0x40049409, early)))
    attempt("copy range", lambda: clone(lambda fd: os.copy_file_range(early, fd, 4096, 0, 0)))
    attempt("deduplicate", lambda: clone(lambda fd: fcntl.ioctl(early, 0xC0189436, bytearray(56))))
    attempt("allocate", lambda: libcall(libc.fallocate(early, 3, ctypes.c_long(0), ctypes.c_long(4096))))
    attempt("unnamed file", lambda: put(os.path.dirname(p) or ".", os.O_TMPFILE | os.O_RDWR))
    attempt("append", lambda: put(p, os.O_WRONLY | os.O_APPEND))
    attempt("truncate", lambda: os.truncate(p, 3))
    attempt("chmod", lambda: os.chmod(p, 0o600))
    attempt("times", lambda: os.utime(p, (1, 1)))
    attempt("attribute", lambda: os.setxattr(p, "user.x", b"x"))
    attempt("replace", lambda: (put(p + ".new", os.O_WRONLY | os.O_CREAT), os.replace(p + ".new", p)))
    attempt("exchange", lambda: libcall(libc.renameat2(-100, (p + ".link").encode(), -100, p.encode(), 2)))
    attempt("whiteout", lambda: libcall(libc.renameat2(-100, p.encode(), -100, (p + ".moved").encode(), 4)))
    attempt("device", lambda: os.mknod(p + ".device", 0o020000, 0))
    attempt("marker", lambda: os.setxattr(os.path.dirname(p) or ".", "trusted.overlay.opaque", b"y"))
    attempt("escaped marker", lambda: os.setxattr(os.path.dirname(p) or ".", "user.overlay.opaque", b"y"))
    handle = (ctypes.c_ubyte * 136)(128)
    number = ctypes.c_int()
    libcall_name = lambda: libcall(libc.name_to_handle_at(-100, p.encode(), handle, ctypes.byref(number), 0))
    attempt("handle", libcall_name)
    attempt("open by handle", lambda: libcall(libc.open_by_handle_at(early, handle, os.O_RDWR)))
    attempt("remove", lambda: os.remove(p))
    os.pread(early, 10, 0)
    view[:8]
d = os.path.dirname(sys.argv[-1])
attempt("move a directory", lambda: os.rename(d, d + ".moved"))
attempt("make it again", lambda: (os.makedirs(d), put(d + "/own", os.O_WRONLY | os.O_CREAT)))
`

// picture is everything in a directory: names, inodes, modes, sizes, times and content.
func picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st := statOf(t, path)
		text := fmt.Sprint(st.Ino, st.Mode, st.Nlink, st.Size, st.Mtim, st.Ctim)
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		got[path] = text
		return nil
	}))
	return got
}

// What agents share never changes, whatever one of them does: neither the base tree nor what the setup
// command made, and no other agent sees a difference.
func TestNothingChangesWhatAgentsShare(t *testing.T) {
	needProgram(t, "python3")
	d, _ := prepared(t, options{}, "")
	d.must("agents", "add", "ann", "--base", "custom", "--wait-setup")
	d.add("bob")
	require.NotNil(t, d.current(), "%+v", d.setupStatus())
	require.Len(t, d.current().Agents, 2)
	d.changesNothing([]string{filepath.Join(d.bases()[0], "tree"), filepath.Join(d.path("ws", ".polis", "setups", d.current().ID), "tree")},
		"main.txt", "src/a.txt", "node_modules/left/index.js", "src/deep/er/c.txt")
}

// The same with the overlay above the view.
func TestNothingChangesWhatAgentsShareBelowAnOverlay(t *testing.T) {
	needProgram(t, "python3")
	d := above(t, options{})
	d.add("ann")
	d.add("bob")
	require.Equal(t, "overlay", d.topMount("ann"))
	d.changesNothing([]string{filepath.Join(d.bases()[0], "tree")}, "main.txt", "src/a.txt", "src/deep/er/c.txt")
}

// changesNothing has ann change files in every way. What is shared, and what bob sees, stays.
func (d *daemon) changesNothing(shared []string, files ...string) {
	t := d.t.(*testing.T)
	t.Helper()
	var before []map[string]string
	for _, dir := range shared {
		before = append(before, picture(t, dir))
	}
	names := strings.Join(files, " ")
	look := "sha256sum " + names + "; stat -c '%n %a %s %Y %i' " + names + " src src/deep/er; find . -name .git -prune -o -print | sort"
	seen := d.sh("bob", look)
	r := d.exec("ann", append([]string{"python3", "-c", everyWay}, files...)...)
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "shared mapping done")
	require.NotContains(t, r.stdout, "open by handle done")
	require.NotContains(t, r.stdout, "device done")
	for i, dir := range shared {
		require.Equal(t, before[i], picture(t, dir), "%s", r)
	}
	require.Equal(t, seen, d.sh("bob", look), "%s", r)
	require.Empty(t, d.sh("bob", "git status --porcelain"))
	d.must("agents", "stop", "bob")
	require.Empty(t, d.own("bob"))
}
