package fusefs

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A worker is another process, perhaps of another user, that makes system calls
// in a tree on command: only so do locks, mappings and permissions mean
// what they mean to programs. (A store to a mapping that this process itself
// serves could wait for itself.)
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	buf *bufio.Writer
	enc *gob.Encoder
	dec *gob.Decoder
}

// call is what a worker is to do; which fields count depends on Op.
type call struct {
	Op             string
	Root           string // the tree; every tree has its own open files
	P, Q           string // below Root
	Slot, Slot2    int    // open files
	Off, Off2, Len int64
	Flags          int
	Mode           uint32
	Stats          []string // or: report what these are
}

// reply is what came of a call.
type reply struct {
	Text  string
	Stats []stat
}

// stat is the result of lstat for a path, as far as it matters, in one comparable piece.
type stat struct {
	Errno                string
	Ino, Nlink           uint64
	Mode, Uid, Gid, Rdev uint32
	Size                 int64
	Mtime, Ctime         unix.Timespec
}

// user is the identity of a worker.
type user struct {
	uid, gid uint32
	groups   []uint32
	umask    int
}

func startWorker(t testing.TB, u user) *worker {
	t.Helper()
	w := &worker{cmd: exec.Command("/proc/self/exe", strconv.Itoa(u.umask))}
	w.cmd.Env = append(os.Environ(), "FUSEFS_HELPER=worker", "GORACE=atexit_sleep_ms=0")
	w.cmd.Stderr, w.cmd.Dir = os.Stderr, "/"
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}}
	var err error
	w.in, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.cmd.Start())
	w.buf = bufio.NewWriter(w.in)
	w.enc, w.dec = gob.NewEncoder(w.buf), gob.NewDecoder(bufio.NewReader(out))
	t.Cleanup(func() {
		_ = w.in.Close() // the end of its work
		stop := time.AfterFunc(10*time.Second, func() { _ = w.cmd.Process.Kill() })
		defer stop.Stop()
		require.NoError(t, w.cmd.Wait())
	})
	return w
}

// do has a call made and returns what came of it.
func (w *worker) do(t require.TestingT, c call) reply {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	var r reply
	require.NoError(t, w.enc.Encode(c))
	require.NoError(t, w.buf.Flush())
	require.NoError(t, w.dec.Decode(&r), "the worker has gone")
	return r
}

// must is do for calls that have to succeed.
func (w *worker) must(t require.TestingT, c call) string {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	r := w.do(t, c)
	require.Contains(t, r.Text, "ok", "%+v", c)
	return r.Text
}

// work is the worker's side.
func work(args []string) error {
	mask, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	unix.Umask(mask)
	runtime.LockOSThread() // name spaces belong to threads
	out := bufio.NewWriter(os.Stdout)
	dec, enc := gob.NewDecoder(bufio.NewReader(os.Stdin)), gob.NewEncoder(out)
	worlds := map[string]*slots{}
	for {
		var c call
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		w := worlds[c.Root]
		if w == nil {
			w = newSlots()
			worlds[c.Root] = w
		}
		var r reply
		for _, p := range c.Stats {
			r.Stats = append(r.Stats, statOf(filepath.Join(c.Root, p)))
		}
		f := calls[c.Op]
		if f == nil {
			f = only[c.Op]
		}
		switch {
		case c.Op == "":
		case c.Op == "end":
			w.closeAll()
			delete(worlds, c.Root)
			r.Text = "ok"
		case f == nil:
			return fmt.Errorf("no such call: %q", c.Op)
		default:
			r.Text = f(w, c)
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func statOf(path string) stat {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stat{Errno: errnoText(err)}
	}
	return stat{
		Ino: st.Ino, Nlink: uint64(st.Nlink), Mode: st.Mode, Uid: st.Uid, Gid: st.Gid,
		Rdev: uint32(st.Rdev), Size: st.Size, Mtime: st.Mtim, Ctime: st.Ctim,
	}
}

// slots are the open files a worker has in one tree; -1 is none.
type slots [4]int

func newSlots() *slots { return &slots{-1, -1, -1, -1} }

func (s *slots) put(i, fd int) {
	if s[i] >= 0 {
		_ = unix.Close(s[i])
	}
	s[i] = fd
}

func (s *slots) closeAll() {
	for i := range s {
		s.put(i, -1)
	}
}
