package timeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/history/snapshot"
	"polis/fusefs/changed"
)

// choose returns a number from 0 to n-1.
type choose func(n int) int

func from[T any](c choose, all ...T) T { return all[c(len(all))] }

// TestAThousandEditsAndEveryCheckpointIsReached: the property at its full size. A failure prints the seed.
func TestAThousandEditsAndEveryCheckpointIsReached(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	e := startEdits(t, t, r.IntN)
	for e.edits < 1000 {
		e.round(20)
		if len(e.ids)%10 == 0 {
			e.rewind(from(e.choose, e.ids...))
		}
	}
	t.Logf("%d edits, %d checkpoints", e.edits, len(e.ids))
	r.Shuffle(len(e.ids), func(i, j int) { e.ids[i], e.ids[j] = e.ids[j], e.ids[i] })
	for _, id := range e.ids {
		e.rewind(id)
	}
}

// TestPropertyEveryCheckpointIsReached is the same for few edits, which rapid makes fewer if it fails.
func TestPropertyEveryCheckpointIsReached(t *testing.T) {
	deadline := time.Now().Add(20 * time.Second)
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(deadline) {
			return // a slow disk: those before are enough
		}
		e := startEdits(t, rt, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") })
		for range 3 {
			e.round(6)
		}
		for _, id := range e.ids {
			e.rewind(id)
		}
	})
}

// edits changes a tree as an agent does, through a view that notes each name, with checkpoints in between; polisd and the
// shim end meanwhile.
type edits struct {
	*world
	t      require.TestingT
	choose choose
	edits  int
	want   map[string]string
	ids    []string
}

func startEdits(t *testing.T, rt require.TestingT, c choose) *edits {
	w := start(t)
	w.h.set = changed.New()
	w.limits = Limits{AgentBytes: 1 << 30, StoreBytes: 1 << 30, Keep: 10000}
	return &edits{world: w, t: rt, choose: c, want: map[string]string{}}
}

// state is everything that a rewind brings back.
func (e *edits) state() string {
	root, err := os.Open(e.h.dir)
	require.NoError(e.t, err)
	defer root.Close()
	m, err := (&snapshot.Scan{Root: root, Sink: snapshot.Hashes{}, Exclude: []string{".git"}}).Run(e.Context())
	require.NoError(e.t, err)
	return string(m.Encode())
}

// round makes at most n edits and a checkpoint.
func (e *edits) round(n int) {
	for range 1 + e.choose(n) {
		e.edit()
		e.edits++
	}
	switch e.choose(10) {
	case 0:
		e.restart()
	case 1:
		e.h.set = changed.New()
	}
	s, _ := e.checkpoint()
	if e.want[s.ID] == "" {
		e.ids = append(e.ids, s.ID)
	}
	e.want[s.ID] = e.state()
}

func (e *edits) rewind(id string) {
	_, err := e.l.Restore(e.Context(), id, api.SnapshotRestoreRequest{})
	require.NoError(e.t, err)
	require.Equal(e.t, e.want[id], e.state(), id)
}

var editPaths = []string{"a", "b", "c", "d", "d/a", "d/e", "d/e/f", "g", "g/h"}

// note adds every name of what is at a path, as the view does before a change.
func (e *edits) note(name string, dir bool) {
	e.h.set.Add(name, dir)
	fi, err := os.Lstat(filepath.Join(e.h.dir, name))
	if err != nil {
		return
	}
	for _, p := range editPaths {
		if other, err := os.Lstat(filepath.Join(e.h.dir, p)); err == nil && os.SameFile(fi, other) {
			e.h.set.Add(p, dir)
		}
	}
}

// edit does one thing to one path, if that is possible.
func (e *edits) edit() {
	name := from(e.choose, editPaths...)
	at := filepath.Join(e.h.dir, name)
	fi, err := os.Lstat(at)
	there, isDir := err == nil, err == nil && fi.IsDir()
	regular := there && fi.Mode().IsRegular()
	text := strings.Repeat(fmt.Sprint(e.choose(1000)), 1+e.choose(40))
	switch from(e.choose, "remove", "mkdir", "rmdir", "symlink", "chmod", "rename", "xattr", "no xattr", "link", "append", "truncate", "map", "exchange", "write", "write", "write") {
	case "remove":
		e.note(name, isDir)
		_ = os.RemoveAll(at)
	case "mkdir":
		e.note(name, true)
		_ = os.Mkdir(at, 0o755)
	case "rmdir":
		e.note(name, true)
		_ = unix.Rmdir(at)
	case "symlink":
		if !isDir {
			e.note(name, false)
			_ = os.Remove(at)
			_ = os.Symlink("to/"+text, at)
		}
	case "chmod":
		if there && fi.Mode().Type() != os.ModeSymlink {
			e.note(name, isDir)
			_ = os.Chmod(at, os.FileMode(0o700+e.choose(64)))
		}
	case "rename":
		e.rename(name, isDir, 0)
	case "exchange":
		e.rename(name, isDir, unix.RENAME_EXCHANGE)
	case "xattr":
		if regular || isDir {
			e.note(name, isDir)
			_ = unix.Setxattr(at, "user.x", []byte(text[:1+e.choose(len(text))]), 0)
		}
	case "no xattr":
		if regular || isDir {
			e.note(name, isDir)
			_ = unix.Removexattr(at, "user.x")
		}
	case "link":
		to := from(e.choose, editPaths...)
		if regular {
			e.note(to, false)
			_ = os.Link(at, filepath.Join(e.h.dir, to))
		}
	case "append":
		e.change(name, regular, func(f *os.File) { _, _ = f.WriteAt([]byte(text), fi.Size()) })
	case "truncate":
		e.change(name, regular, func(f *os.File) { _ = f.Truncate(int64(e.choose(200))) })
	case "map":
		e.change(name, regular && fi.Size() > 0, func(f *os.File) {
			m, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(e.t, err)
			copy(m[e.choose(len(m)):], text)
			require.NoError(e.t, unix.Munmap(m))
		})
	default:
		if !isDir && (!there || regular) {
			e.note(name, false)
			_ = os.WriteFile(at, []byte(text), 0o644)
		}
	}
}

func (e *edits) rename(name string, isDir bool, flags uint) {
	to := from(e.choose, editPaths...)
	if strings.HasPrefix(to, name+"/") || strings.HasPrefix(name, to+"/") {
		return
	}
	fi, err := os.Lstat(filepath.Join(e.h.dir, to))
	isDir = isDir || err == nil && fi.IsDir()
	e.note(name, isDir)
	e.note(to, isDir)
	_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(e.h.dir, name), unix.AT_FDCWD, filepath.Join(e.h.dir, to), flags)
}

// change opens a file for writing, if it can be.
func (e *edits) change(name string, can bool, how func(*os.File)) {
	if !can {
		return
	}
	e.note(name, false)
	f, err := os.OpenFile(filepath.Join(e.h.dir, name), os.O_RDWR, 0)
	require.NoError(e.t, err)
	how(f)
	require.NoError(e.t, f.Close())
}

// TestEditsReachEveryKind: the edits are none that the property never makes.
func TestEditsReachEveryKind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e := startEdits(t, t, r.IntN)
	var seen []string
	for range 600 {
		e.edit()
		for _, p := range editPaths {
			fi, err := os.Lstat(filepath.Join(e.h.dir, p))
			if err != nil {
				continue
			}
			seen = append(seen, fi.Mode().Type().String())
			if _, err := unix.Lgetxattr(filepath.Join(e.h.dir, p), "user.x", nil); err == nil {
				seen = append(seen, "xattr")
			}
			var st unix.Stat_t
			if unix.Lstat(filepath.Join(e.h.dir, p), &st) == nil && st.Nlink > 1 && fi.Mode().IsRegular() {
				seen = append(seen, "hard link")
			}
		}
	}
	slices.Sort(seen)
	require.Equal(t, []string{"----------", "L---------", "d---------", "hard link", "xattr"}, slices.Compact(seen))
}
