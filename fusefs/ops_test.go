package fusefs

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/conn"
)

// How each operation that a connection hands out is treated. Another one in
// conn.FileSystem makes this test fail until it is in this table;
// which requests of the kernel get there at all, conn's own test says.
func TestEveryOperationIsAccountedFor(t *testing.T) {
	kinds := map[string]string{
		"Forget": "server", "Release": "server", "ReleaseDir": "server",
		"Lookup": "visible", "GetAttr": "visible", "ReadDir": "visible", "ReadDirPlus": "visible", "StatFs": "visible", "Statx": "visible",
		"Readlink": "read", "GetXAttr": "read", "ListXAttr": "read", "OpenDir": "read",
		"Open":    "read or write",
		"SetAttr": "write", "Mknod": "write", "Mkdir": "write", "Unlink": "write", "Rmdir": "write", "Rename": "write",
		"Link": "write", "Symlink": "write", "SetXAttr": "write", "RemoveXAttr": "write", "Create": "write",
		"Tmpfile": "write", "CopyFileRange": "write", "Fallocate": "write",
		"Read": "handle", "Write": "handle", "Lseek": "handle", "Fsync": "handle", "FsyncDir": "handle",
		"Access": "unsupported", "GetLk": "unsupported", "SetLk": "unsupported", "SetLkw": "unsupported",
		"Ioctl": "unsupported", "Flush": "unsupported",
	}
	api := reflect.TypeFor[conn.FileSystem]()
	for i := range api.NumMethod() {
		require.Contains(t, kinds, api.Method(i).Name)
	}
	require.Equal(t, api.NumMethod(), len(kinds))
	// Each kind that changes something is driven by attempts, each that reads by reads.
	ops := map[Op]bool{}
	for _, a := range attempts {
		ops[a.op] = true
	}
	for _, op := range []Op{OpOpenWrite, OpCreate, OpTmpfile, OpMknod, OpMkdir, OpSymlink, OpLink, OpUnlink, OpRmdir, OpRename, OpExchange,
		OpSetattr, OpFallocate, OpCopyRange, OpSetxattr, OpRemovexattr} {
		require.True(t, ops[op], op)
	}
}

func TestUnsupportedOperationsNeverSucceed(t *testing.T) {
	f := &FS{guard: &testGuard{}}
	for name, st := range map[string]fuse.Status{
		"access": f.Access(nil, nil), "getlk": f.GetLk(nil, nil, nil), "setlk": f.SetLk(nil, nil), "setlkw": f.SetLkw(nil, nil),
		"ioctl": f.Ioctl(nil, nil, nil, nil, nil), "flush": f.Flush(nil, nil),
	} {
		require.NotEqual(t, fuse.OK, st, name)
	}
}

// attempt is one system call on a view prepared by tree.
type attempt struct {
	op  Op
	try func(v *view, fd int) error // fd is "file", open for reading and writing
}

var attempts = map[string]attempt{
	"open for writing":      {OpOpenWrite, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_WRONLY, 0) }},
	"open for both":         {OpOpenWrite, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_RDWR, 0) }},
	"open truncating":       {OpOpenWrite, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_WRONLY|unix.O_TRUNC, 0) }},
	"open read, truncating": {OpOpenWrite, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_RDONLY|unix.O_TRUNC, 0) }},
	"open appending":        {OpOpenWrite, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_WRONLY|unix.O_APPEND, 0) }},
	"create over existing": {OpOpenWrite, func(v *view, _ int) error {
		return openClose(v.in("file"), unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, 0o600)
	}},
	"create": {OpCreate, func(v *view, _ int) error { return openClose(v.in("new"), unix.O_CREAT|unix.O_WRONLY, 0o600) }},
	"create exclusive": {OpCreate, func(v *view, _ int) error {
		return openClose(v.in("new"), unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY, 0o600)
	}},
	"create in a directory":  {OpCreate, func(v *view, _ int) error { return openClose(v.in("dir/new"), unix.O_CREAT|unix.O_RDWR, 0o600) }},
	"tmpfile":                {OpTmpfile, func(v *view, _ int) error { return openClose(v.in("dir"), unix.O_TMPFILE|unix.O_RDWR, 0o600) }},
	"mknod file":             {OpMknod, func(v *view, _ int) error { return unix.Mknod(v.in("new"), unix.S_IFREG|0o600, 0) }},
	"mknod fifo":             {OpMknod, func(v *view, _ int) error { return unix.Mkfifo(v.in("new"), 0o600) }},
	"bind a socket":          {OpMknod, func(v *view, _ int) error { return bindAt(v.in("new")) }},
	"mkdir":                  {OpMkdir, func(v *view, _ int) error { return unix.Mkdir(v.in("new"), 0o700) }},
	"symlink":                {OpSymlink, func(v *view, _ int) error { return unix.Symlink("file", v.in("new")) }},
	"link":                   {OpLink, func(v *view, _ int) error { return unix.Link(v.in("file"), v.in("new")) }},
	"link by descriptor":     {OpLink, func(v *view, fd int) error { return linkFD(fd, v.in("new")) }},
	"unlink":                 {OpUnlink, func(v *view, _ int) error { return unix.Unlink(v.in("file")) }},
	"rmdir":                  {OpRmdir, func(v *view, _ int) error { return unix.Rmdir(v.in("empty")) }},
	"rename":                 {OpRename, func(v *view, _ int) error { return unix.Rename(v.in("file"), v.in("new")) }},
	"rename over":            {OpRename, func(v *view, _ int) error { return unix.Rename(v.in("file"), v.in("other")) }},
	"rename a directory":     {OpRename, func(v *view, _ int) error { return unix.Rename(v.in("dir"), v.in("new")) }},
	"rename, no replace":     {OpRename, func(v *view, _ int) error { return rename2(v.in("file"), v.in("new"), unix.RENAME_NOREPLACE) }},
	"exchange":               {OpExchange, func(v *view, _ int) error { return rename2(v.in("file"), v.in("other"), unix.RENAME_EXCHANGE) }},
	"exchange file with dir": {OpExchange, func(v *view, _ int) error { return rename2(v.in("file"), v.in("dir"), unix.RENAME_EXCHANGE) }},
	"chmod":                  {OpSetattr, func(v *view, _ int) error { return unix.Chmod(v.in("file"), 0o600) }},
	"fchmod":                 {OpSetattr, func(v *view, fd int) error { return unix.Fchmod(fd, 0o600) }},
	"chmod a directory":      {OpSetattr, func(v *view, _ int) error { return unix.Chmod(v.in("dir"), 0o700) }},
	"chown":                  {OpSetattr, func(v *view, _ int) error { return unix.Chown(v.in("file"), 1, 1) }},
	"lchown":                 {OpSetattr, func(v *view, _ int) error { return unix.Lchown(v.in("link"), 1, 1) }},
	"truncate":               {OpSetattr, func(v *view, _ int) error { return unix.Truncate(v.in("file"), 1) }},
	"ftruncate":              {OpSetattr, func(v *view, fd int) error { return unix.Ftruncate(fd, 1) }},
	"utimes":                 {OpSetattr, func(v *view, _ int) error { return unix.Utimes(v.in("file"), []unix.Timeval{{Sec: 1}, {Sec: 2}}) }},
	"fallocate":              {OpFallocate, func(v *view, fd int) error { return unix.Fallocate(fd, 0, 0, 1<<16) }},
	"punch": {OpFallocate, func(v *view, fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4)
	}},
	"copy_file_range": {OpCopyRange, func(v *view, fd int) error { return copyRange(fd) }},
	"setxattr":        {OpSetxattr, func(v *view, _ int) error { return unix.Setxattr(v.in("file"), "user.new", []byte("x"), 0) }},
	"fsetxattr":       {OpSetxattr, func(v *view, fd int) error { return unix.Fsetxattr(fd, "user.new", []byte("x"), 0) }},
	"removexattr":     {OpRemovexattr, func(v *view, _ int) error { return unix.Removexattr(v.in("file"), "user.old") }},
}

func TestEveryMutationIsGated(t *testing.T) {
	for name, a := range attempts {
		t.Run(name, func(t *testing.T) {
			v, fd, before := prepared(t)
			deny := func(e syscall.Errno) {
				v.g.write = func(_ ctxT, _ Caller, _ Op, _ []Target) syscall.Errno { return e }
			}
			v.g.set(func() { deny(syscall.EACCES); v.g.writes = nil })
			require.ErrorIs(t, a.try(v, fd), syscall.EACCES)
			require.Equal(t, before, snapshotTree(t, v.back), "changed although denied")
			v.g.set(func() {
				require.NotEmpty(t, v.g.writes)
				require.Equal(t, a.op, v.g.writes[0].op)
				require.Positive(t, v.g.counts[a.op])
				deny(syscall.EBUSY)
			})
			require.ErrorIs(t, a.try(v, fd), syscall.EBUSY, "the guard's errno reaches the caller")

			v.g.set(func() { v.g.write = nil; v.g.visible = func(p string, _ bool) bool { return p == "" } })
			require.ErrorIs(t, a.try(v, fd), syscall.ENOENT)
			require.Equal(t, before, snapshotTree(t, v.back), "changed although hidden")

			v.g.set(func() { v.g.visible = nil })
			require.NoError(t, a.try(v, fd))
			if a.op != OpOpenWrite && a.op != OpTmpfile || name == "open truncating" {
				require.NotEqual(t, before, snapshotTree(t, v.back), "nothing changed although allowed")
			}
		})
	}
}

func TestEveryReadIsGated(t *testing.T) {
	for name, a := range map[string]attempt{
		"open":     {OpOpenRead, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_RDONLY, 0) }},
		"readlink": {OpReadlink, func(v *view, _ int) error { _, err := os.Readlink(v.in("link")); return err }},
		"getxattr": {OpGetxattr, func(v *view, _ int) error {
			_, err := unix.Getxattr(v.in("file"), "user.old", make([]byte, 9))
			return err
		}},
		"listxattr":       {OpListxattr, func(v *view, _ int) error { _, err := unix.Listxattr(v.in("file"), make([]byte, 99)); return err }},
		"readdir":         {OpReaddir, func(v *view, _ int) error { _, err := os.ReadDir(v.in("dir")); return err }},
		"read-write open": {OpOpenRead, func(v *view, _ int) error { return openClose(v.in("file"), unix.O_RDWR, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			v, fd, _ := prepared(t)
			v.g.set(func() { v.g.read = func(ctxT, Op, string) syscall.Errno { return syscall.EACCES }; v.g.reads = nil })
			require.ErrorIs(t, a.try(v, fd), syscall.EACCES)
			v.g.set(func() { require.Equal(t, a.op, v.g.reads[0].op); v.g.read = nil })
			v.g.set(func() { v.g.visible = func(p string, _ bool) bool { return p == "" } })
			require.ErrorIs(t, a.try(v, fd), syscall.ENOENT)
			v.g.set(func() { v.g.visible = nil })
			require.NoError(t, a.try(v, fd))
		})
	}
}

func TestHiddenNamesAreNotThere(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("shown"), "")
	write(t, v.raw("secret"), "")
	require.NoError(t, os.MkdirAll(v.raw("hid/below"), 0o755))
	v.g.set(func() { v.g.visible = func(p string, _ bool) bool { return p != "secret" && p != "hid" } })
	es, err := os.ReadDir(v.mnt)
	require.NoError(t, err)
	require.Len(t, es, 1)
	require.Equal(t, "shown", es[0].Name())
	_, err = os.Lstat(v.in("secret"))
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = os.Lstat(v.in("hid/below"))
	require.ErrorIs(t, err, syscall.ENOENT)
	require.Error(t, os.WriteFile(v.in("secret"), []byte("x"), 0o600))
	require.Error(t, os.Mkdir(v.in("hid"), 0o700))
	require.Equal(t, "", content(t, v.raw("secret")))
}

func TestWhatIsNeverAllowed(t *testing.T) {
	v, fd, before := prepared(t)
	require.ErrorIs(t, unix.Mknod(v.in("new"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), syscall.EPERM)
	require.ErrorIs(t, unix.Mknod(v.in("new"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))), syscall.EPERM)
	require.ErrorIs(t, rename2(v.in("file"), v.in("new"), unix.RENAME_WHITEOUT), syscall.EINVAL)
	for _, name := range []string{"security.capability", "trusted.x", "user.polis.lease"} {
		require.Error(t, unix.Setxattr(v.in("file"), name, []byte("x"), 0), name)
		require.Error(t, unix.Removexattr(v.in("file"), name), name)
	}
	acl := []byte("\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x04\x00\x04\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff")
	require.ErrorIs(t, unix.Setxattr(v.in("file"), "system.posix_acl_access", acl, 0), syscall.EOPNOTSUPP)
	_, err := unix.Getxattr(v.in("file"), "security.capability", nil)
	require.ErrorIs(t, err, syscall.ENODATA)
	flags, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(new(int32))))
	require.NotZero(t, errno, "%d", flags)
	require.Equal(t, before, snapshotTree(t, v.back))
}

func TestNamesThatAreNotComponentsAreRefused(t *testing.T) {
	for name, want := range map[string]syscall.Errno{
		"": syscall.EINVAL, ".": syscall.EACCES, "..": syscall.EACCES, "a/b": syscall.EACCES, "/": syscall.EACCES,
		"a\x00b": syscall.EINVAL, string(make([]byte, 256)): syscall.ENAMETOOLONG,
		"a..b": 0, "...": 0, " ": 0, "\xff\xfe": 0, ".git": 0,
	} {
		require.Equal(t, want, validName(name), "%q", name)
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"", ".", "..", "a/b", "a\x00", "a..b", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if validName(s) == 0 {
			require.Equal(t, s, filepath.Base(filepath.Join("/d", s)))
			require.LessOrEqual(t, len(s), 255)
			require.NotContains(t, s, "\x00")
		}
	})
}

func openClose(path string, flags int, mode uint32) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func bindAt(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
}

func linkFD(fd int, path string) error {
	return unix.Linkat(fd, "", unix.AT_FDCWD, path, unix.AT_EMPTY_PATH)
}

func rename2(from, to string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
}

func copyRange(fd int) error {
	from, to := int64(0), int64(8)
	_, err := unix.CopyFileRange(fd, &from, fd, &to, 4, 0)
	return err
}

// prepared is a view of a small tree with "file" open.
func prepared(t *testing.T) (*view, int, map[string]string) {
	t.Helper()
	v := mountView(t)
	write(t, v.raw("file"), "content of file")
	write(t, v.raw("other"), "content of other")
	require.NoError(t, unix.Setxattr(v.raw("file"), "user.old", []byte("1"), 0))
	require.NoError(t, os.Mkdir(v.raw("dir"), 0o755))
	require.NoError(t, os.Mkdir(v.raw("empty"), 0o755))
	write(t, v.raw("dir/inner"), "inner")
	require.NoError(t, os.Symlink("file", v.raw("link")))
	fd, err := unix.Open(v.in("file"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return v, fd, snapshotTree(t, v.back)
}

// snapshotTree describes everything a mutation could change.
func snapshotTree(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		s := fmt.Sprintf("%o %d:%d n%d s%d b%d m%d.%d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Blocks, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			x := make([]byte, 1024)
			n, err := unix.Listxattr(p, x)
			if err != nil {
				return err
			}
			s += fmt.Sprintf(" %x %q", sha256.Sum256(b), x[:n])
		case unix.S_IFLNK:
			text, err := os.Readlink(p)
			if err != nil {
				return err
			}
			s += " -> " + text
		}
		rel, err := filepath.Rel(root, p)
		out[rel] = s
		return err
	}))
	return out
}
