package upper_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// linkScripts are what programs do with files that have more than one name.
var linkScripts = map[string]string{
	"the first name is removed":                  `echo x > a; ln a b; cat b; rm a; cat b; cat b; stat -c %h b; echo more >> b; cat b; chmod 600 b; stat -c %a b; rm b; ls`,
	"the second name is removed":                 `echo x > a; ln a b; cat a b; rm b; cat a; stat -c %h a; ln a b; cat b`,
	"the first name is made again":               `echo one > a; ln a b; cat a b; rm a; echo two > a; cat a b; echo three > b; cat a b; rm a; cat b`,
	"the first name is replaced":                 `echo one > a; ln a b; cat a b; echo two > t; mv t a; cat a b; stat -c %h a b; echo three > t; mv t b; cat a b`,
	"one temporary name for many":                `for i in 1 2 3 4 5 6; do echo $i > tmp; ln tmp k$i; rm tmp; done; sleep 0.3; cat k*; echo new > tmp; cat k* tmp; for i in 1 2 3 4 5 6; do rm k$i; done; ls; cat tmp`,
	"a lock by a link":                           `for i in 1 2 3; do echo $$ > .tmp; ln .tmp lock; ! ln .tmp lock 2>/dev/null; stat -c %h .tmp; rm .tmp; test -s lock; rm lock; done; ls -A`,
	"a copy of a tree by links":                  `mkdir -p d/e; echo 1 > d/f; echo 2 > d/e/g; cp -al d c; rm -r d; cat c/f c/e/g; cp -al c d; rm -r c; cat d/f d/e/g; stat -c %h d/f`,
	"copies of a tree that changes":              `mkdir d; echo 0 > d/f; for i in 1 2 3 4; do cp -al d s$i; echo $i > d/.t; mv d/.t d/f; sleep 0.1; done; cat d/f s1/f s2/f s3/f s4/f; rm -r s2; cat s1/f s3/f; rm -r d; cat s*/f`,
	"the directory of the first name is removed": `mkdir d; echo x > d/a; ln d/a b; cat d/a b; rm -r d; cat b; mkdir d; cat b; echo y > d/a; cat b d/a`,
	"the directory of the first name is moved":   `mkdir d; echo x > d/a; ln d/a b; mv d e; cat b e/a; mkdir d; echo y > d/a; cat b; rm e/a; cat b d/a; rm -r e; cat b`,
	"a build":           `mkdir deps; for i in 1 2 3; do printf '#!/bin/sh\necho %s\n' $i > deps/t; chmod +x deps/t; mv deps/t deps/p; ln -f deps/p p; ./p; deps/p; rm deps/p; ./p; done; rm p; ls -R`,
	"ln -f and sed -i":  `echo 1 > log; for i in 2 3 4; do ln -f log log.old; sed -i s/.*/$i/ log; cat log log.old; done; rm log; cat log.old`,
	"names of the base": `cat base; ln base l; cat l; rm base; cat l; echo more >> l; cat l; ! cat base 2>/dev/null; echo new > base; cat l base; ln dir/in l2; rm -r dir; cat l2`,
	"a move to another name of the same file": `echo x > a; ln a b; python3 -c "import os; os.rename(\"a\", \"b\")"; ls; cat a b`,
	"exclusive creation where a link is":      `echo x > a; ln a b; rm a; ! (set -C; echo y > b) 2>/dev/null; cat b; echo z > a; ! (set -C; echo y > b) 2>/dev/null; cat a b; mv a b; cat b`,
	"open while the first name goes":          `echo x > a; ln a b; exec 3< a 4>> b; rm a; echo y >&4; cat <&3; cat b; exec 3<&- 4>&-; cat b`,
	"a file without a name gets one": `python3 -c '
import os
for i in range(3):
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, b"text %d\n" % i)
    os.link("/proc/self/fd/%d" % fd, "t%d" % i, src_dir_fd=fd, follow_symlinks=True)
    if i == 0:
        os.close(fd)
    print(open("t%d" % i).read(), os.stat("t%d" % i).st_nlink)
    try:
        os.open("t%d" % i, os.O_CREAT | os.O_EXCL); print("twice")
    except FileExistsError:
        print("exists")
    os.link("t%d" % i, "u%d" % i); os.unlink("t%d" % i); print(open("u%d" % i).read())
os.rename("u1", "u2"); print(open("u2").read(), sorted(os.listdir(".")))'`,
	"git with objects that are linked":       `git init -q r; cd r; git config user.name a; git config user.email a@b; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; git fsck --no-progress; git log --format=%s; git clone -q . ../c; rm -rf .git; cd ../c; git fsck --no-progress; git log --format=%s`,
	"names whose first name was one":         `for i in 1 2 3 4 5; do echo $i > tmp; ln tmp k$i; rm tmp; sleep 0.05; done; echo t > tmp; echo n > new; mv new k3; cat k3; ! ln tmp k2 2>/dev/null; ln -f tmp k2; cat k2; ln -sf t k4; readlink k4; ! (set -C; echo y > k1) 2>/dev/null; mv k5 k1; cat k1; mkdir d; ! mkdir k1 2>/dev/null; mv k1 d/tmp; cat d/tmp; mv d/tmp tmp; cat tmp; ls`,
	"two who want a lock":                    `for i in 1 2 3; do echo one > .one; echo two > .two; ln .one lock; ! ln .two lock 2>/dev/null; rm .one; ! ln .two lock 2>/dev/null; cat lock; rm lock; ln .two lock; cat lock; rm .two lock; done; ls -A`,
	"a lock by one name":                     `echo x > mine; for i in 1 2 3; do ln mine lock; ! ln mine lock 2>/dev/null; rm lock; echo y > other; ln other lock; ! ln mine lock 2>/dev/null; cat lock; rm lock other; done; cat mine; ls`,
	"a name that comes back":                 `echo x > a; ln a b; cat a b; rm a; ln b a; cat a b; rm b; cat a; ln a b; rm a; mkdir a; cat b; rmdir a; ln -s b a; cat a b; rm a; mv b a; cat a`,
	"an inode in use while its names change": `echo x > a; ln a b; ln a c; rm a; cat b; rm b; cat c; ln c a; cat a c; rm c; cat a; stat -c %h a`,
	"symbolic links with two names":          `ln -s target s; ln s t; readlink t; rm s; readlink t; ln -s other s; readlink s t`,
	"a pipe with two names":                  `mkfifo p; ln p q; rm p; test -p q; (echo x > q &); cat q; rm q; ls`,
}

// Files with more than one name are as on the file system below, for an agent's programs and for root, whichever
// name goes first: the overlay keeps the name by which it has found a file, and asks the view for it again.
func TestHardLinksAreAsOnTheDisk(t *testing.T) {
	for _, uid := range []uint32{65534, 0} {
		for name, script := range linkScripts {
			t.Run(name+map[bool]string{true: ", as root"}[uid == 0], func(t *testing.T) {
				t.Parallel()
				files := map[string]string{"base": "base\n", "dir/in": "in\n"}
				s := mount(t, files)
				plain := t.TempDir()
				for name, text := range files {
					require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(plain, name)), 0o755))
					require.NoError(t, os.WriteFile(filepath.Join(plain, name), []byte(text), 0o644))
				}
				for dir := plain; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
					require.NoError(t, os.Chmod(dir, 0o755))
				}
				for _, dir := range []string{plain, s.at} {
					require.NoError(t, exec.CommandContext(t.Context(), "chmod", "-R", "a+rwX", dir).Run())
				}
				want := runAs(t, uid, plain, script)
				require.Equal(t, want, runAs(t, uid, s.at, script))
			})
		}
	}
}

// TestRandomChangesOfHardLinksAreAsOnTheDisk does the same random changes in two directories; both must end in the same way.
func TestRandomChangesOfHardLinksAreAsOnTheDisk(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s, plain := mount(t, map[string]string{"a": "base a", "d/b": "base b"}), t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(plain, "d"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(plain, "a"), []byte("base a"), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(plain, "d/b"), []byte("base b"), 0o644))
			runtime.LockOSThread() // the kernel repeats a call on its thread
			defer runtime.UnlockOSThread()
			r := rand.New(rand.NewPCG(seed, 1))
			names := []string{"a", "b", "c", "d/a", "d/b", "e/a", "e/c"}
			var log []string
			for i := range 400 {
				from, to, op := names[r.IntN(len(names))], names[r.IntN(len(names))], r.IntN(12)
				did := fmt.Sprintf("%d: %d %s %s", i, op, from, to)
				log = append(log, did)
				want, got := linkStep(plain, op, from, to, i), linkStep(s.at, op, from, to, i)
				require.Equal(t, want, got, "%s", strings.Join(log[max(0, len(log)-60):], "\n"))
				if i%40 == 0 {
					time.Sleep(10 * time.Millisecond) // the view has used the names by now
				}
			}
		})
	}
}

// A name that the kernel has not looked up before the first one went is looked up, and revalidated only after that.
func TestANameIsFoundAfterTheFirstOneWent(t *testing.T) {
	s := mount(t, nil)
	require.NoError(t, os.WriteFile(s.in("a"), []byte("text"), 0o644))
	require.NoError(t, os.Link(s.in("a"), s.in("b")))
	require.NoError(t, overlayfs.Forget(s.at))
	f, err := os.Open(s.in("a"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(s.in("a")))
	time.Sleep(50 * time.Millisecond) // the view has used the name by now
	for range 3 {
		require.Equal(t, "text", text(t, s.in("b")))
	}
}

// linkStep makes one change below dir and returns what a program sees.
func linkStep(dir string, op int, from, to string, i int) string {
	f, g := dir+"/"+from, dir+"/"+to // dir can lead up from a symbolic link
	var err error
	out := ""
	switch op {
	case 0:
		err = os.WriteFile(f, []byte(fmt.Sprint("text ", i)), 0o644)
	case 1, 2:
		err = os.Link(f, g)
	case 3, 4:
		err = os.Remove(f)
	case 5:
		err = unix.Rename(f, g)
	case 6:
		err = unix.Renameat2(unix.AT_FDCWD, f, unix.AT_FDCWD, g, unix.RENAME_NOREPLACE)
	case 7:
		var h *os.File
		if h, err = os.OpenFile(f, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			err = h.Close()
		}
	case 8:
		var h *os.File
		if h, err = os.OpenFile(f, os.O_APPEND|os.O_WRONLY, 0); err == nil {
			fmt.Fprint(h, "more ", i)
			err = h.Close()
		}
	case 9:
		err = os.Mkdir(g[:strings.LastIndex(g, "/")]+"/../e", 0o755)
	case 10:
		err = os.RemoveAll(dir + "/e")
	default:
		b, rerr := os.ReadFile(f)
		out, err = string(b), rerr
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		out += " " + unix.ErrnoName(e)
	}
	for _, name := range []string{from, to} {
		fi, err := os.Lstat(dir + "/" + name)
		if errors.As(err, &e) {
			out += " " + unix.ErrnoName(e)
		} else if fi.Mode().IsRegular() {
			b, err := os.ReadFile(dir + "/" + name)
			out += fmt.Sprintf(" %d %q %v", fi.Sys().(*syscall.Stat_t).Nlink, b, err)
		}
	}
	return out
}

// runAs returns the output of a script, which must succeed.
func runAs(t *testing.T, uid uint32, dir, script string) string {
	t.Helper()
	// Not cmd.Dir: between fork and exec no goroutine of this process may have to answer.
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", `cd "$0"; `+script, dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "in %s: %s", dir, out)
	return string(out)
}
