package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shown shows changes after the view was invalidated, and waits until they were shown.
func (v *view) shown(t testing.TB, changes ...Change) {
	t.Helper()
	v.fs.InvalidateAll()
	v.fs.ShowChanges(changes)
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, 30*time.Second, time.Millisecond)
}

// asked reports whether the guard was called for a change.
func (g *testGuard) asked() (is bool) {
	g.set(func() { is = len(g.writes) > 0 })
	return is
}

// events are those that were seen, without the first that say less: open and attribute changes.
func (w *watcher) events() []string {
	w.read()
	out := slices.DeleteFunc(w.seen, func(e string) bool { return len(e) > 6 && e[:6] == "ATTRIB" })
	w.seen = nil
	return out
}

const regular, directory, symlink = unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK

// Programs that watch a directory see what was made, changed and removed behind the view as if a program
// had done it, whether or not the kernel knew the names.
func TestWatchersSeeAChangeBehindTheViewAsAProgramsOwn(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("names known %v", known), func(t *testing.T) {
			v := mountView(t)
			require.NoError(t, os.MkdirAll(v.raw("d/old/deep"), 0o755))
			for _, name := range []string{"removed", "written", "replaced", "old/f", "old/deep/g", "run"} {
				write(t, v.raw("d/"+name), name)
			}
			require.NoError(t, os.Chmod(v.raw("d/run"), 0o755))
			require.NoError(t, os.Symlink("to", v.raw("d/link")))
			require.NoError(t, os.Symlink("to", v.raw("d/turned")))
			w := watch(t, v.in("d"))
			if known {
				require.NoError(t, filepath.Walk(v.in("d"), func(string, os.FileInfo, error) error { return nil }))
			}

			for _, name := range []string{"removed", "replaced", "link", "old/deep/g", "old/deep", "old/f", "old", "turned"} {
				require.NoError(t, os.Remove(v.raw("d/"+name)))
			}
			write(t, v.raw("d/written"), "more than that")
			write(t, v.raw("d/run"), "more than that")
			write(t, v.raw("d/replaced"), "another")
			require.NoError(t, os.MkdirAll(v.raw("d/new/deep"), 0o755))
			require.NoError(t, os.Mkdir(v.raw("d/turned"), 0o755))
			write(t, v.raw("d/new/f"), "f")
			require.NoError(t, os.Symlink("to", v.raw("d/newlink")))
			require.NoError(t, unix.Mkfifo(v.raw("d/fifo"), 0o600))

			v.shown(t,
				Change{Path: "d/removed", Was: regular}, Change{Path: "d/link", Was: symlink},
				Change{Path: "d/old", Was: directory}, Change{Path: "d/old/f", Was: regular}, Change{Path: "d/old/deep", Was: directory}, Change{Path: "d/old/deep/g", Was: regular},
				Change{Path: "d/written", Was: regular, Is: regular, Content: true}, Change{Path: "d/run", Was: regular, Is: regular, Content: true},
				Change{Path: "d/replaced", Was: regular, Is: regular, Replaced: true, Content: true},
				Change{Path: "d/turned", Was: symlink, Is: directory, Replaced: true},
				Change{Path: "d/new", Is: directory}, Change{Path: "d/new/deep", Is: directory}, Change{Path: "d/new/f", Is: regular, Content: true},
				Change{Path: "d/newlink", Is: symlink}, Change{Path: "d/fifo", Is: unix.S_IFIFO})

			want := []string{
				"DELETE turned", "DELETE removed", "DELETE old", "DELETE link",
				"CREATE fifo", "CREATE new", "CREATE newlink", "DELETE replaced", "CREATE replaced", "MODIFY replaced", "CLOSE_WRITE replaced",
				"MODIFY run", "CREATE turned", "MODIFY written", "CLOSE_WRITE written"}
			require.Equal(t, want, w.events())
			require.Equal(t, "another", content(t, v.in("d/replaced")))
			require.Equal(t, "more than that", content(t, v.in("d/written")))
			require.Equal(t, "f", content(t, v.in("d/new/f")))
			require.NoFileExists(t, v.in("d/removed"))
			require.NoDirExists(t, v.in("d/old"))
			to, err := os.Readlink(v.in("d/newlink"))
			require.NoError(t, err)
			require.Equal(t, "to", to)
			require.False(t, v.g.asked(), "the guard is not called")
			v.g.set(func() {
				require.Zero(t, v.g.counts[OpUnlink]+v.g.counts[OpRmdir]+v.g.counts[OpMkdir]+v.g.counts[OpMknod]+v.g.counts[OpSymlink]+v.g.counts[OpSetattr]+v.g.counts[OpOpenWrite], "nothing is counted")
			})
		})
	}
}

// A program that has a directory or a file below it watched sees them go.
func TestWatchersSeeWhatTheyWatchGo(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.MkdirAll(v.raw("d/e"), 0o755))
	write(t, v.raw("d/e/f"), "f")
	write(t, v.raw("d/kept"), "old")
	d, e, f, kept := watch(t, v.in("d")), watch(t, v.in("d/e")), watch(t, v.in("d/e/f")), watch(t, v.in("d/kept"))
	open, err := os.Open(v.in("d/kept"))
	require.NoError(t, err)
	defer open.Close()
	require.NoError(t, os.RemoveAll(v.raw("d/e")))
	require.NoError(t, os.Remove(v.raw("d/kept")))
	write(t, v.raw("d/kept"), "new")
	v.shown(t, Change{Path: "d/e", Was: directory}, Change{Path: "d/e/f", Was: regular}, Change{Path: "d/kept", Was: regular, Is: regular, Replaced: true, Content: true})
	e.expect(t, "DELETE f")
	e.expect(t, "DELETE_SELF ")
	f.expect(t, "DELETE_SELF ")
	d.expect(t, "DELETE e")
	d.expect(t, "CREATE kept")
	open.Close()
	kept.expect(t, "DELETE_SELF ")
	require.Equal(t, "new", content(t, v.in("d/kept")))
}

// What is not so is not shown, and nothing is done: the name was made again meanwhile, or was not there.
func TestAnEchoOfWhatIsNotSoDoesNothing(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.MkdirAll(v.raw("d/dir/sub"), 0o755))
	write(t, v.raw("d/there"), "kept")
	write(t, v.raw("d/hidden"), "")
	v.g.set(func() { v.g.visible = func(path string, _ bool) bool { return path != "d/hidden" && path != "d/gone" } })
	require.Equal(t, "kept", content(t, v.in("d/there")))
	require.DirExists(t, v.in("d/dir/sub"))
	w := watch(t, v.in("d"))
	v.shown(t, Change{Path: "d/there", Was: regular}, Change{Path: "d/dir", Was: directory}, Change{Path: "d/dir/sub", Was: directory},
		Change{Path: "d/none", Is: regular}, Change{Path: "d/nodir", Is: directory}, Change{Path: "d/no/way", Is: regular},
		Change{Path: "d/dir", Is: directory}, Change{Path: "../../etc/passwd", Was: regular, Is: regular, Content: true}, Change{Path: "d/hidden", Is: regular},
		Change{Path: "d/gone", Was: regular}, Change{Path: "d/hidden", Was: regular, Is: regular, Content: true})
	require.Empty(t, w.events())
	require.Equal(t, "kept", content(t, v.raw("d/there")))
	require.DirExists(t, v.in("d/dir/sub"))
	names, err := os.ReadDir(v.raw("d"))
	require.NoError(t, err)
	require.Len(t, names, 3)
}

// Root changes nothing in a mount that lies over a directory of the view, and follows no link out of it.
func TestAnEchoStaysOnTheMount(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	outside := t.TempDir()
	write(t, outside+"/f", "f")
	require.NoError(t, os.Symlink(outside, v.raw("out")))
	require.NoError(t, unix.Mount("tmpfs", v.in("d"), "tmpfs", 0, ""))
	defer func() { require.NoError(t, unix.Unmount(v.in("d"), 0)) }()
	write(t, v.in("d/g"), "of the mount")
	w, o := watch(t, v.in("d")), watch(t, outside)
	v.fs.ShowChanges([]Change{{Path: "d/g", Was: regular}, {Path: "d/h", Is: directory}, {Path: "d/g", Was: regular, Is: regular, Content: true},
		{Path: "out/f", Was: regular}, {Path: "out/g", Is: regular}, {Path: "out/f", Was: regular, Is: regular, Content: true}, {Path: "d", Was: directory}})
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, 30*time.Second, time.Millisecond)
	require.Empty(t, w.events())
	require.Empty(t, o.events())
	require.Equal(t, "of the mount", content(t, v.in("d/g")))
	require.NoDirExists(t, v.in("d/h"))
}

// Programs that change the same names at the same time lose nothing, and the answers that they get are true.
func TestProgramsBesideAnEchoLoseNothing(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o777))
	require.NoError(t, os.Chmod(v.raw("d"), 0o777))
	const names, rounds = 4, 150
	var stop atomic.Bool
	var wg sync.WaitGroup
	fail := make(chan string, 1)
	report := func(format string, a ...any) {
		select {
		case fail <- fmt.Sprintf(format, a...):
		default:
		}
	}
	for i := range names { // each name has one program, so that it knows what must be there
		wg.Go(func() {
			name := v.in(fmt.Sprintf("d/%d", i))
			for n := 0; !stop.Load(); n++ {
				text := fmt.Sprint(n)
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					report("write: %v", err)
					return
				}
				b, err := os.ReadFile(name)
				if err != nil || string(b) != text {
					report("read %q, %v, want %q", b, err, text)
					return
				}
				if f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
					f.Close()
					report("made what is there")
					return
				}
				if err := os.Remove(name); err != nil {
					report("remove: %v", err)
					return
				}
				if _, err := os.Lstat(name); err == nil {
					report("it is there after its removal")
					return
				}
				if err := os.Remove(name); err == nil {
					report("removed what is not there")
					return
				}
				if err := os.Mkdir(name, 0o755); err != nil {
					report("mkdir: %v", err)
					return
				}
				if err := os.Remove(name); err != nil {
					report("rmdir: %v", err)
					return
				}
			}
		})
	}
	var all []Change
	for i := range names {
		p := fmt.Sprintf("d/%d", i)
		all = append(all, Change{Path: p, Was: regular}, Change{Path: p, Is: regular, Content: true}, Change{Path: p, Was: regular, Is: regular, Replaced: true, Content: true},
			Change{Path: p, Is: directory}, Change{Path: p, Was: directory})
	}
	for range rounds {
		v.fs.ShowChanges(all)
	}
	stop.Store(true)
	wg.Wait()
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, 30*time.Second, time.Millisecond)
	select {
	case why := <-fail:
		require.Fail(t, why)
	default:
	}
	left, err := os.ReadDir(v.raw("d"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Of very many changes the directories are notified, and a view that is unmounted does not wait for the rest.
func TestAnEchoIsBoundedAndEndsWithTheView(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	w := watch(t, v.in("d"))
	var many []Change
	for i := range maxEchoed {
		many = append(many, Change{Path: fmt.Sprintf("no/%d", i), Is: regular})
	}
	v.fs.ShowChanges(append(many, Change{Path: "d/last", Is: regular}))
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, time.Minute, time.Millisecond)
	w.expect(t, "ATTRIB ")
	v.fs.ShowChanges(many) // and the view is unmounted
}

// A change of a program that waits in a directory delays what is shown of it, and nothing else waits for it.
func TestAnEchoWaitsForAChangeThatIsHeldBack(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	w := watch(t, v.in("d"))
	v.fs.Suspend()
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(v.in("d/own"), nil, 0o644) }()
	require.Eventually(t, func() bool { return v.g.asked() }, 30*time.Second, time.Millisecond)
	write(t, v.raw("d/f"), "f")
	began := time.Now()
	v.fs.ShowChanges([]Change{{Path: "d/f", Is: regular}})
	require.Less(t, time.Since(began), 20*time.Second)
	require.True(t, v.fs.ShowsChanges())
	v.fs.Resume()
	require.NoError(t, <-done)
	w.expect(t, "CREATE f")
}
