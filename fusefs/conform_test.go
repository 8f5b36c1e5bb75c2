package fusefs

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// sequences is how many random sequences each kind of view has to bear.
// POLIS_SEQUENCES=5000 makes a long run of it.
func sequences(t testing.TB, usual int) int {
	t.Helper()
	s := os.Getenv("POLIS_SEQUENCES")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, "POLIS_SEQUENCES is a number of sequences")
	return n
}

// checks sets how many sequences rapid.Check makes until the test ends.
func checks(t testing.TB, n int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	old := f.Value.String()
	require.NoError(t, f.Value.Set(strconv.Itoa(n)))
	t.Cleanup(func() { require.NoError(t, f.Value.Set(old)) })
}

// crew are the processes that work in a tree: root twice, and two users who
// share a group.
var crew = []user{
	{umask: 0o022},
	{umask: 0},
	{uid: nobody, gid: nobody, groups: []uint32{nobody, 4242}, umask: 0o027},
	{uid: 1234, gid: 1234, groups: []uint32{1234, 4242}, umask: 0o002},
}

// To programs of several users a view is the directory behind it: every result
// and errno, what changes in size, links and times, and the tree at the end.
func TestProcessesOfSeveralUsersFindAPlainDirectory(t *testing.T) {
	for name, opt := range map[string]func(*Config){
		"hybrid": func(*Config) {},
		"server only, nothing cached, few dir fds": func(c *Config) { c.NoPassthrough, c.NoRing, c.Timeout, c.DirDescriptors = true, true, -1, 2 },
		"server only, cached":                      func(c *Config) { c.NoPassthrough = true },
	} {
		t.Run(name, func(t *testing.T) {
			checks(t, sequences(t, 60))
			v := mountView(t, opt)
			plain := t.TempDir()
			for p := plain; p != "/tmp" && p != "/"; p = filepath.Dir(p) {
				require.NoError(t, os.Chmod(p, 0o755))
			}
			for p := filepath.Dir(v.mnt); p != "/tmp" && p != "/"; p = filepath.Dir(p) {
				require.NoError(t, os.Chmod(p, 0o755))
			}
			b := &bench{t: t, v: v, plain: plain}
			for _, u := range crew {
				b.crew = append(b.crew, startWorker(t, u))
			}
			rapid.Check(t, b.sequence)
		})
	}
}

// bench is a view and a plain directory side by side.
type bench struct {
	t     *testing.T
	v     *view
	plain string
	crew  []*worker
	run   int
}

func (b *bench) sequence(rt *rapid.T) {
	b.run++
	dir := strconv.Itoa(b.run)
	plain, seen, raw := filepath.Join(b.plain, dir), b.v.in(dir), b.v.raw(dir)
	mode := among[uint32](rt, "root mode", 0o777, 0o755, 0o1777, 0o2775, 0o3777, 0o770)
	owner := among(rt, "root owner", 0, nobody, 1234)
	defer func() {
		for _, w := range b.crew {
			w.do(rt, call{Op: "end", Root: plain})
			w.do(rt, call{Op: "end", Root: seen})
		}
	}()
	for _, d := range []string{plain, seen} {
		require.NoError(rt, os.Mkdir(d, 0o700))
		require.NoError(rt, unix.Chown(d, owner, 4242))
		require.NoError(rt, unix.Chmod(d, mode))
		b.furnish(rt, d)
	}
	root := b.crew[0]
	for range rapid.IntRange(20, 60).Draw(rt, "steps") {
		who := pick(rt, len(b.crew), "who")
		c := drawCall(rt)
		look := touched(c)
		on := func(dir string) (string, []string, []stat) {
			c := c
			c.Root = dir
			before := root.do(rt, call{Root: dir, Stats: look}).Stats
			r := b.crew[who].do(rt, c)
			after := root.do(rt, call{Root: dir, Stats: look}).Stats
			return r.Text, effects(before, after), after
		}
		want, wantEffects, _ := on(plain)
		got, gotEffects, after := on(seen)
		require.Equal(rt, want, got, "worker %d: %+v", who, c)
		require.Equal(rt, wantEffects, gotEffects, "worker %d: %+v", who, c)
		onDisk := root.do(rt, call{Root: raw, Stats: look}).Stats
		for i := range look {
			require.Equal(rt, onDisk[i], after[i], "view and disk differ on %q after worker %d: %+v", look[i], who, c)
		}
	}
	want := shape(rt, plain)
	require.Equal(rt, want, shape(rt, seen), "through the view")
	require.Equal(rt, want, shape(rt, raw), "on the disk")
}

// touched are the paths a call may change something of.
func touched(c call) []string {
	var out []string
	for _, p := range []string{c.P, c.Q, path.Dir(c.P), path.Dir(c.Q), "."} {
		if !slices.Contains(out, p) && !strings.HasPrefix(p, "..") {
			out = append(out, p)
		}
	}
	return out
}

// effects returns what changed. The times themselves differ between two trees;
// whether they moved does not.
func effects(before, after []stat) []string {
	out := make([]string, len(after))
	for i, a := range after {
		b := before[i]
		size := a.Size
		if a.Mode&unix.S_IFMT == unix.S_IFDIR {
			size = 0 // depends on the directory's history
		}
		out[i] = fmt.Sprintf("%s %o n%d %d:%d s%d", a.Errno, a.Mode, a.Nlink, a.Uid, a.Gid, size)
		if a.Errno == "" && b.Errno == "" && a.Ino == b.Ino {
			out[i] += fmt.Sprintf(" mtime:%v ctime:%v", a.Mtime != b.Mtime, a.Ctime != b.Ctime)
		}
	}
	return out
}

var (
	long     = strings.Repeat("n", 255)
	tooLong  = strings.Repeat("n", 256)
	notUTF8  = "\xff\xfe\x01"
	allPaths = []string{
		"a", "b", "c", "d", "d/a", "d/b", "d/d", "d/d/a", "e", "e/a", "e/b", "l", "l/a", "t", "t/a", "t/own1", "t/own2", "t/own3", "t/l",
		"a", "b", "c", "d/a", "d/b", "d/d/a", "e/a", "e/b", "t/a", "t/own2", "t/own3",
		long, "d/" + long, tooLong, notUTF8, notUTF8 + "/a", ".", "d/.", "d/..", "d/", "a/",
	}
)

// weights makes some calls more frequent than others.
var weights = map[string]int{
	"open": 8, "pwrite": 4, "rename": 5, "link": 3, "unlink": 2, "mkdir": 3, "chmod": 3, "tmpfile": 2, "linkfd": 2,
	"fallocate": 3, "store": 2, "write": 2, "copy": 2, "chown": 2, "chdir": 0, "readlink": 0,
}

var callNames = func() []string {
	var out []string
	for n := range calls {
		for range weights[n] + 1 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}()

// pick is one of n, each as probable as the others: rapid likes small numbers,
// and calls that fail because nothing is there yet are soon tried out.
func pick(rt *rapid.T, n int, what string) int {
	return int(rapid.Uint32().Draw(rt, what) * 2654435769 >> 8 % uint32(n))
}

func among[T any](rt *rapid.T, what string, of ...T) T { return of[pick(rt, len(of), what)] }

func drawCall(rt *rapid.T) call {
	c := call{
		Op: among(rt, "op", callNames...), P: among(rt, "p", allPaths...), Q: among(rt, "q", allPaths...),
		Slot: pick(rt, 4, "slot"), Slot2: pick(rt, 4, "slot2"), Flags: pick(rt, 12, "flags"),
		Off: among(rt, "off", 0, 1, 4095, 4096, 5000, 8192, 12288, int64(pick(rt, 20000, "any off"))),
		Len: among(rt, "len", 0, 1, 100, 4096, 4097, 8192, int64(pick(rt, 9000, "any len"))),
	}
	c.Off2 = int64(pick(rt, 20000, "off2"))
	c.Mode = uint32(pick(rt, 0o10000, "mode"))
	if pick(rt, 3, "usual mode") > 0 {
		c.Mode = c.Mode&0o077 | 0o600
	}
	switch c.Op {
	case "open", "tmpfile":
		c.Flags = among(rt, "access", unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR) |
			among(rt, "create", 0, 0, unix.O_CREAT, unix.O_CREAT, unix.O_CREAT|unix.O_EXCL) |
			among(rt, "more", 0, 0, 0, 0, unix.O_TRUNC, unix.O_APPEND, unix.O_SYNC, unix.O_DIRECT, unix.O_NOFOLLOW, unix.O_DIRECTORY,
				unix.O_PATH, unix.O_APPEND|unix.O_TRUNC, unix.O_EXCL, unix.O_NOATIME)
	case "rename":
		c.Flags = among(rt, "rename flags", 0, 0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE)
	case "chown", "fchown":
		c.Off2 = among[int64](rt, "uid", -1, 0, nobody, 1234)
		c.Flags = among(rt, "gid", -1, 0, nobody, 1234, 4242)
		if c.Off2 == -1 && c.Flags == -1 {
			c.Off2 = 0 // see TestAnOwnerThatStaysIsAChangeToo
		}
	case "fallocate":
		c.Mode = among[uint32](rt, "fallocate mode",
			0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
			unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE)
	}
	return c
}

// furnish puts a few things into a tree, and opens some in every worker.
func (b *bench) furnish(rt *rapid.T, dir string) {
	root := b.crew[0]
	for _, c := range []call{
		{Op: "mkdir", P: "d", Mode: 0o777}, {Op: "chmod", P: "d", Mode: 0o777}, {Op: "mkdir", P: "d/d", Mode: 0o755},
		{Op: "mkdir", P: "e", Mode: 0o777}, {Op: "chown", P: "e", Off2: 1234, Flags: 4242}, {Op: "chmod", P: "e", Mode: 0o2775},
		{Op: "mkdir", P: "t", Mode: 0o777}, {Op: "chmod", P: "t", Mode: 0o1777},
		{Op: "open", P: "a", Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o666}, {Op: "pwrite", Len: 10000}, {Op: "chmod", P: "a", Mode: 0o666},
		{Op: "open", P: "d/a", Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o644}, {Op: "pwrite", Len: 100},
		{Op: "open", P: "e/a", Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o644}, {Op: "chmod", P: "e/a", Mode: 0o664},
		{Op: "chown", P: "e/a", Off2: nobody, Flags: nobody}, {Op: "symlink", P: "a", Q: "l"}, {Op: "link", P: "a", Q: "d/b"},
		{Op: "symlink", P: "d/d", Q: "t/l"}, {Op: "close"},
	} {
		c.Root = dir
		root.must(rt, c)
	}
	for i, w := range b.crew {
		for slot, c := range []call{
			{P: "a", Flags: unix.O_RDWR},
			{P: "d/a", Flags: unix.O_RDONLY},
			{P: fmt.Sprint("t/own", i), Flags: unix.O_RDWR | unix.O_CREAT, Mode: 0o6770},
		} {
			c.Root, c.Op, c.Slot = dir, "open", slot
			w.do(rt, c) // the root directory may be closed to it
		}
	}
}
