package fusefs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// run runs a script as an ordinary user. The shell goes into the view by
// itself: a child that this process forks must not, because this process has to
// answer while it waits for the fork.
func run(t *testing.T, dir, script string) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	openDir(t, home, 0o777)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-euc", `cd "$1"; eval "$2"`, "sh", dir, script)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// tool skips, except in CI, when a program is missing.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestGitWorksInAView(t *testing.T) {
	tool(t, "git")
	v := mountView(t)
	openDir(t, v.in("w"), 0o755)
	require.NoError(t, os.Chown(v.in("w"), nobody, nobody))
	out := run(t, v.in("w"), `
		git init -q -b main repo; cd repo
		git config user.name n; git config user.email e@example.org
		for i in $(seq 120); do mkdir -p d$((i % 7)); echo $i > d$((i % 7))/f$i; done
		git add -A; git commit -qm one
		git checkout -q -b side; sed -i s/1/one/ d*/f*; git commit -qam two
		echo change >> d1/f1; git stash -q; git stash pop -q; git checkout -q -- .
		git mv d1 moved; git commit -qm three
		git checkout -q main; git merge -q side; git rebase -q main
		git clone -q . ../clone; git -C ../clone log --oneline | wc -l
		git gc -q; git fsck --strict --no-dangling; git worktree add -q ../tree side~1; git -C ../tree status --short
		rm -rf moved; git reset -q --hard; git status --short`)
	require.Equal(t, "3", strings.TrimSpace(out))
	run(t, v.raw("w"), `git -C repo fsck --strict; git -C repo status --short; git -C repo diff --quiet HEAD`)
}

func TestSQLiteWorksInAView(t *testing.T) {
	tool(t, "python3")
	v := mountView(t)
	openDir(t, v.in("w"), 0o777)
	out := run(t, v.in("w"), `python3 -c '
import sqlite3, multiprocessing
def work(n):
    c = sqlite3.connect("db", timeout=60)
    for i in range(50):
        with c: c.execute("insert into t values (?, ?)", (n, i))
c = sqlite3.connect("db"); print(c.execute("pragma journal_mode=wal").fetchone()[0]); c.execute("create table t (a, b)"); c.commit(); c.close()
ps = [multiprocessing.Process(target=work, args=(n,)) for n in range(4)]
[p.start() for p in ps]; [p.join() for p in ps]
c = sqlite3.connect("db"); print(c.execute("select count(*) from t").fetchone()[0], c.execute("pragma integrity_check").fetchone()[0])
'`)
	require.Equal(t, "wal\n200 ok\n", out)
}

func TestProgramsRunFromAView(t *testing.T) {
	v := mountView(t)
	openDir(t, v.in("w"), 0o755)
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	sh, err := os.ReadFile("/bin/sh")
	require.NoError(t, err)
	for name, b := range map[string][]byte{"large": self, "small": sh} {
		require.NoError(t, os.WriteFile(v.raw("w", name), b, 0o755))
		require.NoError(t, os.WriteFile(v.in("w", name+"-written"), b, 0o755))
	}
	run(t, v.in("w"), `./small -c true; ./small-written -c true; ./large -test.run=^$; ./large-written -test.run=^$`)

	run(t, v.raw("w"), `./small-written -c true; ./large-written -test.run=^$`) // nor on the other side
	fd, err := unix.Open(v.in("w/small"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.Contains(t, run(t, v.in("w"), `./small -c true || true`), "busy", "a program being written cannot be run")
}

// What a view acquired it releases.
func TestNothingIsLeftAfterUnmounting(t *testing.T) {
	needFUSE(t)
	before := descriptors(t)
	t.Run("view", func(t *testing.T) {
		v := mountView(t)
		for i := range 20 {
			d := v.in(strings.Repeat("d/", i))
			require.NoError(t, os.MkdirAll(d, 0o755))
			write(t, d+"/f", "x")
			f, err := os.Open(d + "/f")
			require.NoError(t, err)
			defer f.Close()
			if i%2 == 0 {
				require.NoError(t, os.Remove(d+"/f"))
			}
		}
	})
	require.Eventually(t, func() bool { return descriptors(t) <= before }, 30*time.Second, 10*time.Millisecond)
}

// A stacked backing file system needs the second level of stacking; where the
// kernel refuses passthrough, data goes through the server, without any error.
func TestPassthroughOnAStackedFileSystem(t *testing.T) {
	needFUSE(t)
	for _, knows := range []bool{true, false} {
		base := t.TempDir()
		for _, d := range []string{"lower", "upper", "work", "merged", "mnt"} {
			require.NoError(t, os.Mkdir(filepath.Join(base, d), 0o755))
		}
		merged := filepath.Join(base, "merged")
		write(t, filepath.Join(base, "lower/f"), "lower")
		opts := "lowerdir=" + base + "/lower,upperdir=" + base + "/upper,workdir=" + base + "/work"
		if err := unix.Mount("overlay", merged, "overlay", 0, opts); err != nil {
			t.Skipf("no overlayfs here: %v", err)
		}
		t.Cleanup(func() { // the kernel drops registered files a moment after the connection has ended
			require.Eventually(t, func() bool { return unix.Unmount(merged, 0) == nil }, 30*time.Second, time.Millisecond)
		})
		root, err := unix.Open(merged, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		g := &testGuard{}
		fs, err := New(Config{Roots: []int{root}, Guard: g, Mountpoint: base + "/mnt"})
		unix.Close(root)
		require.NoError(t, err)
		require.True(t, fs.overlay)
		fs.overlay = knows
		require.NoError(t, fs.Mount(t.Context()))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			require.NoError(t, fs.Unmount(ctx))
		})
		v := &view{fs: fs, g: g, back: merged, mnt: base + "/mnt"}
		f, err := os.OpenFile(v.in("f"), os.O_RDWR, 0)
		require.NoError(t, err)
		h := onlyHandle(t, v)
		if kernelAtLeast(t, 6, 9) {
			require.Equal(t, knows, h.node.Files.Passthrough())
		}
		r, err := os.Open(v.in("f"))
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("UPPER"), 0)
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = r.ReadAt(b, 0)
		require.NoError(t, err)
		require.Equal(t, "UPPER", string(b))
		require.NoError(t, r.Close())
		require.NoError(t, f.Close())
		require.Equal(t, "UPPER", content(t, v.raw("f")))
	}
}
