package fusefs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func drawLowerPath(rt *rapid.T) string {
	if rapid.IntRange(0, 4).Draw(rt, "file") == 0 {
		return rapid.SampledFrom([]string{".env", ".env.local", ".env.other", "plain"}).Draw(rt, "name")
	}
	p := "node_modules"
	for range rapid.IntRange(0, 3).Draw(rt, "depth") {
		p += "/" + rapid.SampledFrom([]string{"a", "b", "lib", "f"}).Draw(rt, "part")
	}
	return p
}

type lowerOp struct {
	kind        string
	path, path2 string
	text        string
}

func (o lowerOp) on(dir string) error {
	p, q := filepath.Join(dir, o.path), filepath.Join(dir, o.path2)
	switch o.kind {
	case "write":
		return errors.Join(os.WriteFile(p, []byte(o.text), 0o644))
	case "append":
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(o.text)
		return errors.Join(err, f.Close())
	case "exclusive":
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	case "unlink":
		return unix.Unlink(p)
	case "rmdir":
		return unix.Rmdir(p)
	case "removeall":
		return os.RemoveAll(p)
	case "mkdir":
		return unix.Mkdir(p, 0o755)
	case "symlink":
		return unix.Symlink(o.text, p)
	case "chmod":
		return unix.Fchmodat(unix.AT_FDCWD, p, 0o750, 0)
	case "rename":
		return unix.Rename(p, q)
	case "noreplace":
		return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, unix.RENAME_NOREPLACE)
	case "exchange":
		return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, unix.RENAME_EXCHANGE)
	}
	return syscall.ENOSYS
}

func errnoIn(err error) syscall.Errno {
	var e syscall.Errno
	if err != nil && !errors.As(err, &e) {
		e = syscall.EIO
	}
	return e
}

// A view with names that show from below behaves like a directory into which
// they had been copied, and leaves them as they are; another mount finds the same.
func TestSharedNamesBehaveLikeACopy(t *testing.T) {
	p := mountProject(t, func(string) {})
	plains := t.TempDir()
	fill := func(low string) {
		for name, text := range map[string]string{"node_modules/a/f": "1", "node_modules/a/lib/f": "2", "node_modules/b/f": "3", ".env": "4", ".env.local": "5"} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(low, name)), 0o755))
			write(t, filepath.Join(low, name), text)
		}
		require.NoError(t, os.Symlink("../a/f", filepath.Join(low, "node_modules/b/lib")))
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		dir := fmt.Sprintf("run%d", run)
		plain, low := filepath.Join(plains, dir), filepath.Join(p.low, dir)
		fill(plain)
		fill(low)
		require.NoError(t, os.Mkdir(p.in(dir), 0o755))
		before := dump(t, low)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			o := lowerOp{
				kind: rapid.SampledFrom([]string{"write", "append", "exclusive", "unlink", "rmdir", "removeall", "mkdir", "symlink", "chmod", "rename", "noreplace", "exchange"}).Draw(rt, "op"),
				path: drawLowerPath(rt), path2: drawLowerPath(rt), text: rapid.StringMatching(`[a-z]{0,9}`).Draw(rt, "text"),
			}
			got := errnoIn(o.on(p.in(dir)))
			if got == syscall.EXDEV {
				fi, err := os.Lstat(filepath.Join(plain, o.path))
				fi2, err2 := os.Lstat(filepath.Join(plain, o.path2))
				if !(err == nil && fi.IsDir() || o.kind == "exchange" && err2 == nil && fi2.IsDir()) {
					rt.Fatalf("%+v: EXDEV for something that is no directory", o)
				}
				continue
			}
			if want := errnoIn(o.on(plain)); got != want {
				rt.Fatalf("%+v: %v, a plain directory says %v", o, got, want)
			}
		}
		if w, g := dump(t, plain), dump(t, p.in(dir)); !maps.Equal(w, g) {
			rt.Fatalf("want %v\n got %v", w, g)
		}
		if !maps.Equal(before, dump(t, low)) {
			rt.Fatalf("the project was changed")
		}
		require.Equal(rt, objects(rt, p.back), p.g.objects.Load(), "what the guard counted")
	})
	again := remount(t, p)
	for i := range run {
		dir := fmt.Sprintf("run%d", i+1)
		require.Equal(t, dump(t, p.in(dir)), dump(t, again.in(dir)), "after a remount")
	}
}
