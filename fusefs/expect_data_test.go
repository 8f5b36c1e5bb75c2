package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/openfile"
)

// open opens for the length of a check.
func (s *site) open(name string, flags int) int {
	s.Helper()
	fd, err := unix.Open(s.at(name), flags|unix.O_CLOEXEC, 0o644)
	require.NoError(s, err, name)
	s.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func space(s *site) {
	write(s, s.at("f"), strings.Repeat("x", 64<<10))
	fd := s.open("f", unix.O_RDWR)
	require.NoError(s, unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20))
	require.EqualValues(s, 64<<10, lstat(s, s.at("f")).Size)
	require.GreaterOrEqual(s, lstat(s, s.at("f")).Blocks, int64(2048))
	require.NoError(s, unix.Fallocate(fd, 0, 0, 1<<20))
	require.EqualValues(s, 1<<20, lstat(s, s.at("f")).Size)
	full := lstat(s, s.at("f")).Blocks
	require.NoError(s, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8192, 1<<19))
	require.Less(s, lstat(s, s.at("f")).Blocks, full)
	require.NoError(s, unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 0, 4096))
	want := append(append(make([]byte, 4096), bytes.Repeat([]byte("x"), 4096)...), make([]byte, 1<<20-8192)...)
	require.Equal(s, want, []byte(content(s, s.at("f"))))
	require.ErrorIs(s, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE, 0, 10), syscall.EOPNOTSUPP)
	require.ErrorIs(s, unix.Fallocate(s.open("f", unix.O_RDONLY), 0, 0, 10), syscall.EBADF)
}

func holes(s *site) {
	fd := s.open("f", unix.O_RDWR|unix.O_CREAT)
	_, err := unix.Pwrite(fd, alignedBlock('d'), 1<<20)
	require.NoError(s, err)
	require.NoError(s, unix.Ftruncate(fd, 4<<20))
	require.NoError(s, unix.Fsync(fd))
	for _, c := range []struct {
		off    int64
		whence int
		want   int64
	}{{0, unix.SEEK_DATA, 1 << 20}, {1 << 20, unix.SEEK_HOLE, 1<<20 + 4096}, {0, unix.SEEK_HOLE, 0}, {2 << 20, unix.SEEK_HOLE, 2 << 20}} {
		got, err := unix.Seek(fd, c.off, c.whence)
		require.NoError(s, err)
		require.Equal(s, c.want, got)
	}
	_, err = unix.Seek(fd, 2<<20, unix.SEEK_DATA)
	require.ErrorIs(s, err, syscall.ENXIO)
	_, err = unix.Seek(fd, 5<<20, unix.SEEK_HOLE)
	require.ErrorIs(s, err, syscall.ENXIO)
}

func copiedRange(s *site) {
	data := make([]byte, 3<<20+17)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	require.NoError(s, os.WriteFile(s.at("from"), data, 0o644))
	from, to := s.open("from", unix.O_RDONLY), s.open("to", unix.O_RDWR|unix.O_CREAT)
	var off int64
	for off < int64(len(data)) {
		n, err := unix.CopyFileRange(from, &off, to, nil, len(data), 0)
		require.NoError(s, err)
		require.Positive(s, n)
	}
	require.Equal(s, data, []byte(content(s, s.at("to"))))
	n, err := unix.CopyFileRange(from, &off, to, nil, 10, 0)
	require.NoError(s, err)
	require.Zero(s, n, "at the end")
	_, err = unix.CopyFileRange(to, nil, from, nil, 10, 0)
	require.ErrorIs(s, err, syscall.EBADF)
	var zero int64
	_, err = unix.CopyFileRange(to, &zero, s.open("to", unix.O_WRONLY|unix.O_APPEND), nil, 10, 0)
	require.ErrorIs(s, err, syscall.EBADF, "not in append mode")
}

func namelessFiles(s *site) {
	fd := s.open(".", unix.O_TMPFILE|unix.O_RDWR)
	var st unix.Stat_t
	require.NoError(s, unix.Fstat(fd, &st))
	require.Zero(s, st.Nlink)
	_, err := unix.Write(fd, []byte("secret until done"))
	require.NoError(s, err)
	require.NoError(s, unix.Fchmod(fd, 0o640))
	require.NoError(s, unix.Linkat(unix.AT_FDCWD, backing.ProcPath(fd), unix.AT_FDCWD, s.at("f"), unix.AT_SYMLINK_FOLLOW))
	require.NoError(s, unix.Linkat(fd, "", unix.AT_FDCWD, s.at("g"), unix.AT_EMPTY_PATH))
	require.Equal(s, "secret until done", content(s, s.at("f")))
	got := lstat(s, s.at("g"))
	require.EqualValues(s, 2, got.Nlink)
	require.EqualValues(s, 0o640, got.Mode&0o7777)
	require.NoError(s, unix.Fstat(fd, &st))
	require.EqualValues(s, 2, st.Nlink)
	never := s.open(".", unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL)
	require.ErrorIs(s, unix.Linkat(unix.AT_FDCWD, backing.ProcPath(never), unix.AT_FDCWD, s.at("h"), unix.AT_SYMLINK_FOLLOW), syscall.ENOENT)
	require.ErrorIs(s, openClose(s.dir, unix.O_TMPFILE|unix.O_RDONLY, 0o600), syscall.EINVAL)
}

func hugeFile(s *site) {
	const far = 5<<30 + 123
	fd := s.open("f", unix.O_RDWR|unix.O_CREAT)
	_, err := unix.Pwrite(fd, []byte("far"), far)
	require.NoError(s, err)
	require.EqualValues(s, far+3, lstat(s, s.at("f")).Size)
	b := make([]byte, 10)
	n, err := unix.Pread(fd, b, far)
	require.NoError(s, err)
	require.Equal(s, "far", string(b[:n]))
	data, err := unix.Seek(fd, 0, unix.SEEK_DATA)
	require.NoError(s, err)
	require.EqualValues(s, far&^4095, data)
	to := s.open("g", unix.O_RDWR|unix.O_CREAT)
	from, there := int64(far), int64(6<<30)
	n, err = unix.CopyFileRange(fd, &from, to, &there, 3, 0)
	require.NoError(s, err)
	require.Equal(s, 3, n)
	require.EqualValues(s, 6<<30+3, lstat(s, s.at("g")).Size)
	require.NoError(s, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, far, 2))
	n, err = unix.Pread(fd, b, far)
	require.NoError(s, err)
	require.Equal(s, "\x00\x00r", string(b[:n]))
	require.NoError(s, os.Truncate(s.at("f"), 4<<30))
	require.EqualValues(s, 4<<30, lstat(s, s.at("f")).Size)
	s.ok(s.b, call{Op: "open", P: "g", Flags: unix.O_RDWR})
	require.Equal(s, fmt.Sprint("3ok", sum([]byte("far"))), s.get(s.b, call{Op: "pread", Off: 6 << 30, Len: 3}))
}

func unlinked(s *site) {
	write(s, s.at("f"), "hello")
	fd := s.open("f", unix.O_RDWR)
	s.ok(s.a, call{Op: "open", P: "f", Flags: unix.O_RDWR | unix.O_APPEND})
	require.NoError(s, os.Remove(s.at("f")))
	write(s, s.at("f"), "another")
	var st unix.Stat_t
	require.NoError(s, unix.Fstat(fd, &st))
	require.Zero(s, st.Nlink)
	require.Equal(s, "3ok", s.get(s.a, call{Op: "write", Len: 3, Off: 'x', Off2: 0}))
	require.NoError(s, unix.Fstat(fd, &st))
	require.EqualValues(s, 8, st.Size)
	require.NoError(s, unix.Ftruncate(fd, 4))
	b := make([]byte, 10)
	n, err := unix.Pread(fd, b, 0)
	require.NoError(s, err)
	require.Equal(s, "hell", string(b[:n]))
	require.NoError(s, unix.Fchmod(fd, 0o600))
	require.NoError(s, unix.Fchown(fd, 1, 1))
	require.NoError(s, unix.Fsetxattr(fd, "user.x", []byte("1"), 0))
	require.NoError(s, unix.Fallocate(fd, 0, 0, 100))
	require.ErrorIs(s, unix.Linkat(unix.AT_FDCWD, backing.ProcPath(fd), unix.AT_FDCWD, s.at("back"), unix.AT_SYMLINK_FOLLOW), syscall.ENOENT)
	require.Equal(s, "another", content(s, s.at("f")))
}

func directIO(s *site) {
	fd := s.open("f", unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT)
	for i := range 4 {
		n, err := unix.Pwrite(fd, alignedBlock(byte('a'+i)), int64(i)*4096)
		require.NoError(s, err)
		require.Equal(s, 4096, n)
	}
	require.Equal(s, strings.Repeat("a", 4096)+strings.Repeat("b", 4096), content(s, s.at("f"))[:8192])
	s.ok(s.a, call{Op: "open", P: "f", Flags: unix.O_RDWR}) // through the page cache beside it
	require.Equal(s, "100ok", s.get(s.a, call{Op: "pwrite", Off: 4096, Len: 100}))
	b := alignedBlock(0)
	n, err := unix.Pread(fd, b, 4096)
	require.NoError(s, err)
	require.Equal(s, 4096, n)
	require.Equal(s, call{Off: 4096, Len: 100}.pattern(), b[:100])
	require.Equal(s, byte('b'), b[100])
}

func appends(s *site) {
	const each, size = 150, 100
	write(s, s.at("log"), "")
	var wg sync.WaitGroup
	for i := range 4 {
		w := startWorker(s.T, user{umask: 0o022})
		wg.Go(func() {
			for j := range each {
				w.do(s.T, call{Op: "append", Root: s.dir, P: "log", Off: int64(i * 50), Off2: int64(j), Len: size})
			}
		})
	}
	wg.Wait()
	got, seen := []byte(content(s, s.at("log"))), map[string]int{}
	require.Len(s, got, 4*each*size)
	for ; len(got) > 0; got = got[size:] {
		seen[string(got[:size])]++
	}
	for i := range 4 {
		for j := range each {
			p := string(call{Off: int64(i * 50), Off2: int64(j), Len: size}.pattern())
			require.Positive(s, seen[p], "record %d of %d", j, i)
			seen[p]--
		}
	}
}

// textBusy starts the program from another process: while one is started, Go's runtime keeps a
// processor and cannot stop the others, so that a process that has to serve the program's pages
// in between deadlocks.
func textBusy(s *site) {
	sh, err := os.ReadFile("/bin/sleep")
	require.NoError(s, err)
	require.NoError(s, os.WriteFile(s.at("prog"), sh, 0o755))
	start := call{Op: "start", P: "prog"}
	s.ok(s.a, call{Op: "open", P: "prog", Flags: unix.O_RDWR})
	require.Equal(s, "ETXTBSY", s.get(s.b, start))
	s.ok(s.a, call{Op: "close"})
	require.Eventually(s, func() bool { // a view learns of the close afterwards
		return s.get(s.b, start) == "ok"
	}, 30*time.Second, time.Millisecond)
	require.Equal(s, "ETXTBSY", s.get(s.a, call{Op: "open", P: "prog", Flags: unix.O_RDWR}))
	require.Equal(s, "ETXTBSY", s.get(s.a, call{Op: "truncate", P: "prog"}))
	require.NoError(s, os.Remove(s.at("prog")))
	write(s, s.at("prog"), "a new one is no obstacle")
	s.ok(s.b, call{Op: "kill"})
}

func sharedMapping(s *site) {
	write(s, s.at("f"), strings.Repeat("x", 8192))
	for _, w := range []*worker{s.a, s.b} {
		s.ok(w, call{Op: "open", P: "f", Flags: unix.O_RDWR})
		s.ok(w, call{Op: "map"})
	}
	s.ok(s.a, call{Op: "poke", Off: 5000, Len: 'a'})
	require.Equal(s, "ok97", s.get(s.b, call{Op: "peek", Off: 5000}))
	s.ok(s.b, call{Op: "poke", Off: 1, Len: 'b'})
	require.Equal(s, "ok98", s.get(s.a, call{Op: "peek", Off: 1}))
	s.ok(s.a, call{Op: "close"})
	require.Equal(s, "ok97", s.get(s.b, call{Op: "peek", Off: 5000}), "a mapping outlives the descriptor")
	s.ok(s.a, call{Op: "open", P: "f", Flags: unix.O_RDWR})
	require.Equal(s, "10ok", s.get(s.a, call{Op: "pwrite", Off: 4096, Len: 10}))
	require.Equal(s, fmt.Sprint("ok", call{Off: 4096, Len: 10}.pattern()[3]), s.get(s.b, call{Op: "peek", Off: 4099}))
	for _, w := range []*worker{s.a, s.b} {
		s.ok(w, call{Op: "unmap"})
	}
	want := []byte(strings.Repeat("x", 8192))
	want[5000], want[1] = 'a', 'b'
	copy(want[4096:], call{Off: 4096, Len: 10}.pattern())
	require.Equal(s, string(want), content(s, s.at("f")))
}

func rights(s *site) {
	write(s, s.at("f"), "0123456789")
	r, w, rw := s.open("f", unix.O_RDONLY), s.open("f", unix.O_WRONLY), s.open("f", unix.O_RDWR)
	b := make([]byte, 10)
	for i, fd := range []int{w, rw} {
		_, err := unix.Pwrite(fd, []byte{byte('a' + i)}, int64(i))
		require.NoError(s, err)
		for _, back := range []int{r, rw} {
			n, err := unix.Pread(back, b, 0)
			require.NoError(s, err)
			require.Equal(s, "ab0123456789"[:i+1]+"0123456789"[i+1:], string(b[:n]))
		}
	}
	_, err := unix.Pwrite(r, b, 0)
	require.ErrorIs(s, err, syscall.EBADF)
	_, err = unix.Pread(w, b, 0)
	require.ErrorIs(s, err, syscall.EBADF)
	require.ErrorIs(s, unix.Ftruncate(r, 1), syscall.EINVAL)
	require.NoError(s, unix.Ftruncate(w, 3))
	n, err := unix.Pread(r, b, 0)
	require.NoError(s, err)
	require.Equal(s, "ab2", string(b[:n]))
}

func locks(s *site) {
	write(s, s.at("f"), "")
	other := startWorker(s.T, user{umask: 0o022})
	elsewhere := s.TempDir()
	require.Equal(s, "ok", other.do(s, call{Op: "bind", Root: elsewhere, P: s.dir}).Text)
	there := func(c call) string { c.Root = elsewhere; return other.do(s, c).Text }
	s.ok(s.a, call{Op: "open", P: "f", Flags: unix.O_RDWR})
	require.Equal(s, "ok", there(call{Op: "open", P: "f", Flags: unix.O_RDWR}))
	const shared, exclusive, unlock = 0, 1, 2
	for _, kind := range []call{{Op: "flock"}, {Op: "fcntl"}, {Op: "fcntl", Off2: 1}} { // the last: of the open file description
		lock := func(how int) call { c := kind; c.Flags = how; return c }
		s.ok(s.a, lock(exclusive))
		require.Equal(s, "EAGAIN", there(lock(exclusive)), kind)
		require.Equal(s, "EAGAIN", there(lock(shared)), kind)
		s.ok(s.a, lock(shared))
		require.Equal(s, "ok", there(lock(shared)), kind)
		require.Equal(s, "EAGAIN", s.get(s.a, lock(exclusive)), kind)
		s.ok(s.a, lock(unlock))
		require.Equal(s, "ok", there(lock(exclusive)), kind)
		require.Equal(s, "ok", there(lock(unlock)), kind)
	}
	// ranges, and who waits is woken
	s.ok(s.a, call{Op: "fcntl", Flags: exclusive, Off: 0, Len: 10})
	require.Equal(s, "ok", there(call{Op: "fcntl", Flags: exclusive, Off: 10, Len: 10}))
	woken := make(chan string, 1)
	go func() { woken <- there(call{Op: "fcntlwait", Flags: exclusive, Off: 5, Len: 10}) }()
	select {
	case got := <-woken:
		require.Fail(s, "did not wait", got)
	case <-time.After(50 * time.Millisecond):
	}
	s.ok(s.a, call{Op: "close"}) // gives the lock back
	require.Equal(s, "ok", <-woken)
	require.Equal(s, "ok", there(call{Op: "end"}))
}

func sameOwner(s *site) {
	for _, d := range []string{"mine", "program"} {
		write(s, s.at(d), "")
		require.NoError(s, os.Chown(s.at(d), nobody, nobody))
	}
	require.NoError(s, unix.Chmod(s.at("program"), 0o6755))
	mine, stranger := startWorker(s.T, crew[2]), startWorker(s.T, crew[3])
	before := lstat(s, s.at("mine")).Ctim
	nothing := call{Op: "chown", P: "mine", Off2: -1, Flags: -1}
	s.ok(mine, nothing)
	after := lstat(s, s.at("mine")).Ctim
	require.NotEqual(s, before, after)
	nothing.P = "program"
	require.Equal(s, "EPERM", s.get(stranger, nothing))
	require.EqualValues(s, 0o6755, lstat(s, s.at("program")).Mode&0o7777)
	s.ok(mine, nothing)
	require.EqualValues(s, 0o755, lstat(s, s.at("program")).Mode&0o7777)
}

// A writer takes the set-id bits of a program, also when it got them after
// the open.
func setIDWhileOpen(s *site) {
	member := startWorker(s.T, crew[2])
	for _, name := range []string{"small", "large"} {
		write(s, s.at(name), strings.Repeat("x", map[string]int{"small": 10, "large": 2 * openfile.SmallFile}[name]))
		require.NoError(s, os.Chown(s.at(name), 1234, 4242))
		for _, before := range []string{"writer", "reader"} {
			require.NoError(s, unix.Chmod(s.at(name), 0o775))
			if before == "reader" { // it chose how the data flows
				s.ok(s.a, call{Op: "open", P: name, Flags: unix.O_RDONLY})
			}
			s.ok(member, call{Op: "open", P: name, Flags: unix.O_RDWR})
			for range 2 {
				require.Equal(s, "10ok", s.get(member, call{Op: "pwrite", Len: 10}), "remembered as harmless")
			}
			require.NoError(s, unix.Chmod(s.at(name), 0o6775))
			require.Equal(s, "10ok", s.get(member, call{Op: "pwrite", Len: 10}))
			require.EqualValues(s, 0o775, lstat(s, s.at(name)).Mode&0o7777, "%s, first opened by a %s", name, before)
			s.ok(member, call{Op: "close"})
			s.ok(s.a, call{Op: "close"})
		}
	}
}

// watched: who watches a directory learns what another process does in it.
func watched(s *site) {
	write(s, s.at("f"), "")
	w := watch(s, s.dir)
	s.ok(s.a, call{Op: "open", P: "new", Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o600})
	require.Equal(s, "10ok", s.get(s.a, call{Op: "write", Len: 10}))
	s.ok(s.a, call{Op: "close"})
	s.ok(s.b, call{Op: "chmod", P: "f", Mode: 0o600})
	s.ok(s.b, call{Op: "rename", P: "new", Q: "f"})
	s.ok(s.b, call{Op: "unlink", P: "f"})
	s.ok(s.b, call{Op: "mkdir", P: "d", Mode: 0o700})
	for _, want := range []string{"CREATE new", "MODIFY new", "CLOSE_WRITE new", "ATTRIB f", "MOVED_FROM new", "MOVED_TO f", "DELETE f", "CREATE d"} {
		w.expect(s, want)
	}
}

// watcher collects the events of an inotify instance.
type watcher struct {
	fd   int
	seen []string // not asked for yet
}

func watch(t testing.TB, dir string) *watcher {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_ALL_EVENTS&^(unix.IN_OPEN|unix.IN_ACCESS|unix.IN_CLOSE_NOWRITE))
	require.NoError(t, err)
	return &watcher{fd: fd}
}

var eventNames = map[uint32]string{
	unix.IN_CREATE: "CREATE", unix.IN_MODIFY: "MODIFY", unix.IN_CLOSE_WRITE: "CLOSE_WRITE", unix.IN_ATTRIB: "ATTRIB",
	unix.IN_MOVED_FROM: "MOVED_FROM", unix.IN_MOVED_TO: "MOVED_TO", unix.IN_DELETE: "DELETE", unix.IN_DELETE_SELF: "DELETE_SELF",
}

// read takes what there is.
func (w *watcher) read() {
	b := make([]byte, 64<<10)
	n, err := unix.Read(w.fd, b)
	if err != nil {
		return // nothing yet
	}
	for e := b[:n]; len(e) >= unix.SizeofInotifyEvent; {
		size := unix.SizeofInotifyEvent + (int(e[12]) | int(e[13])<<8)
		mask := uint32(e[4]) | uint32(e[5])<<8 // the rest is IN_ISDIR
		w.seen = append(w.seen, eventNames[mask]+" "+strings.TrimRight(string(e[unix.SizeofInotifyEvent:size]), "\x00"))
		e = e[size:]
	}
}

// expect waits for an event; what comes before it is passed over.
func (w *watcher) expect(t testing.TB, want string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		w.read()
		if i := slices.Index(w.seen, want); i >= 0 {
			w.seen = w.seen[i+1:]
			return
		}
		if time.Now().After(end) {
			require.Fail(t, "no such event", "%s not among %q", want, w.seen)
		}
	}
}
