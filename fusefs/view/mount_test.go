package view

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
	"polis/fusefs/ignore"
	"polis/fusefs/policy"
	"polis/internal/need"
)

const nobody = 65534

func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
	need.Device(t, "/dev/fuse")
}

// agent is a mounted view of a directory of its own.
type agent struct {
	*setup
	t    *testing.T
	mnt  string
	view *fusefs.FS
}

// sh runs a script as nobody inside the view. The shell changes directory by
// itself: a chdir between fork and exec would block this process's runtime on
// the mount this process serves.
func (a *agent) sh(script string) (string, error) {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), "sh", "-c", "cd \"$0\" && exec 2>&1; "+script, a.mnt)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(a.mnt), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (a *agent) ok(script string) {
	a.t.Helper()
	out, err := a.sh(script)
	require.NoError(a.t, err, "%s\n%s", script, out)
}

func (a *agent) fails(script, with string) {
	a.t.Helper()
	out, err := a.sh(script)
	require.Error(a.t, err, script)
	require.Contains(a.t, out, with, script)
}

func mounted(t *testing.T, b *book, name string, rules policy.Rules, files map[string]string) *agent {
	t.Helper()
	return mountedWith(t, b, name, rules, files, func(*Config) {})
}

func mountedWith(t *testing.T, b *book, name string, rules policy.Rules, files map[string]string, change func(*Config)) *agent {
	t.Helper()
	top, err := os.MkdirTemp("", "polis-view-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
	require.NoError(t, os.Chmod(top, 0o777))
	back, mnt := filepath.Join(top, "back"), filepath.Join(top, "mnt")
	require.NoError(t, os.Mkdir(back, 0o755))
	require.NoError(t, os.Mkdir(mnt, 0o755))
	for p, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(back, p)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(back, p), []byte(text), 0o644))
	}
	git := exec.Command("sh", "-c", "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm one")
	git.Dir = back
	out, err := git.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, exec.Command("chown", "-R", "65534:65534", back).Run())

	root, err := os.Open(back)
	require.NoError(t, err)
	defer root.Close()
	ig, err := ignore.New(ignore.Config{RootFD: int(root.Fd()), IndexPath: back + "/.git/index", Recheck: -1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ig.Close()) })
	a := &agent{t: t, mnt: mnt}
	a.setup = newGuard(t, rules, func(c *Config) {
		c.Agent, c.Locker, c.GitFile = name, page{b, name}, false
		c.Ignore, c.RootFD = ig.Exempt, int(root.Fd())
		c.OnDenial = nil // several requests at once; Stats are enough
		c.Log = slog.New(slog.DiscardHandler)
		change(c)
	})
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	fs, err := fusefs.New(fusefs.Config{Roots: []int{int(root.Fd())}, Guard: a.Guard, Mountpoint: mnt, FsName: "polis-test", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	a.view = fs
	require.NoError(t, fs.Mount(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, fs.Unmount(ctx))
	})
	return a
}

func TestProgramsInARuledView(t *testing.T) {
	needRoot(t)
	b := &book{held: map[string]string{}}
	files := map[string]string{"src/a.go": "a\n", "src/b.go": "b\n", "docs/d.md": "d\n", "secret/key.pem": "k\n", "hidden/h": "h\n", ".gitignore": "build/\n"}
	a := mounted(t, b, "a", policy.Rules{Read: []string{"docs", ".git*"}, Write: []string{"src/**", "build/**"}, Deny: []string{"*.pem"}, Hide: []string{"hidden"}}, files)
	a.ok("cat src/a.go docs/d.md")
	a.ok("echo x >> src/a.go && echo y > src/new.go && mkdir -p src/deep/er && mv src/new.go src/deep/er/n.go")
	a.ok("sed -i s/x/z/ src/a.go && grep -q z src/a.go")
	a.ok("printf q > src/b.go.tmp.12.ab && mv src/b.go.tmp.12.ab src/b.go")
	a.ok("mkdir -p build && echo o > build/o")
	a.ok("ls -la . secret && stat secret/key.pem")
	a.fails("cat secret/key.pem", "Permission denied")
	a.fails("echo x > docs/d.md", "Permission denied")
	a.fails("echo x > docs/new", "Permission denied")
	a.fails("mkdir docs/new", "Permission denied")
	a.fails("rm docs/d.md", "Permission denied")
	a.fails("mv docs/d.md src/d.md", "Permission denied")
	a.fails("mv src/a.go docs/a.go", "Permission denied")
	a.fails("ln docs/d.md src/d.md", "Permission denied")
	a.fails("ln secret/key.pem src/k", "Permission denied")
	a.fails("chmod 600 docs/d.md", "Permission denied")
	a.fails("truncate -s 0 docs/d.md", "Permission denied")
	a.fails("touch docs/d.md", "Permission denied")
	a.fails("sed -i s/d/e/ docs/d.md", "Permission denied")
	a.fails("mv secret src/secret", "Permission denied")
	a.fails("cat hidden/h", "No such file")
	a.fails("ls hidden", "No such file")
	for _, script := range []string{"touch hidden", "mkdir hidden", "mv src/a.go hidden", "ln -s x hidden", "ln src/a.go hidden"} {
		denied := a.Stats().WriteDenied
		a.fails(script, "No such file")
		require.Greater(t, a.Stats().WriteDenied, denied, "a name that cannot be made is a refusal: %s", script)
	}
	out, err := a.sh("ls -A")
	require.NoError(t, err)
	require.NotContains(t, out, "hidden")
	st := a.Stats()
	require.Positive(t, st.ReadDenied)
	require.Positive(t, st.WriteDenied)
	require.GreaterOrEqual(t, st.ReadCount, st.ReadDenied)
	require.Zero(t, st.LockConflicts)
	require.NotContains(t, b.leases(), "build/o", "what git ignores takes no lease")
	require.Equal(t, "a", b.leases()["src/b.go"])
	for p := range b.leases() {
		require.False(t, strings.Contains(p, ".tmp.") || strings.Contains(p, "/sed"), p)
	}
}

func TestTwoAgentsOnTheSamePaths(t *testing.T) {
	needRoot(t)
	b := &book{held: map[string]string{}}
	files := map[string]string{"f": "f\n", "g": "g\n", "d/x": "x\n", ".gitignore": "out/\n"}
	one, two := mounted(t, b, "one", policy.Rules{}, files), mounted(t, b, "two", policy.Rules{}, files)
	one.ok("echo 1 >> f && mkdir out && echo 1 > out/o")
	for _, script := range []string{
		"echo 2 >> f", "sed -i s/f/g/ f", "mv g f", "mv f h", "rm f", "truncate -s 0 f", "ln f h", "ln -sf g f",
		"printf 2 > f.tmp.1.aa", "chmod 700 f",
	} {
		two.fails(script, "busy")
	}
	two.ok("cat f && echo 2 >> d/x && mkdir out && echo 2 > out/o")
	one.fails("echo 1 >> d/x", "busy")
	out, err := two.sh("cat f; ls")
	require.NoError(t, err)
	require.Equal(t, "f\nd\nf\ng\nout\n", out, "nothing was changed on the way")
	require.EqualValues(t, 10, two.Stats().LockConflicts)
}

// Editors save through temporary names; one writable file is enough for them,
// and the lease is on the file.
func TestEditorsNeedOnlyTheFileItself(t *testing.T) {
	needRoot(t)
	for name, script := range map[string]string{
		"vim":      `vim -es -u NONE -N -c 'set swapfile backup writebackup backupcopy=no' -c '%s/old/new/' -c wq src/f`,
		"vim copy": `vim -es -u NONE -N -c 'set swapfile nobackup backupcopy=auto' -c '%s/old/new/' -c wq src/f`,
		"emacs":    `emacs -Q --batch --eval '(progn (find-file "src/f") (while (search-forward "old" nil t) (replace-match "new")) (save-buffer))'`,
		"sed":      `sed -i s/old/new/ src/f`,
		"python":   `python3 -c 'import os; open("src/f.tmp.%d.a1" % os.getpid(),"w").write("new\n"); os.rename("src/f.tmp.%d.a1" % os.getpid(), "src/f")'`,
		"agent":    `printf 'new\n' > src/f.0123456789ab.tmp && mv src/f.0123456789ab.tmp src/f`,
		"tee":      `echo new | tee src/f >/dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			prog, _, _ := strings.Cut(script, " ")
			if _, err := exec.LookPath(prog); err != nil {
				t.Skipf("no %s here", prog)
			}
			b := &book{held: map[string]string{}}
			a := mounted(t, b, "a", policy.Rules{Write: []string{"src/f"}}, map[string]string{"src/f": "old\n", "src/g": "old\n"})
			a.ok(script)
			a.ok("grep -q new src/f")
			a.fails("echo x > src/g", "Permission denied")
			require.Equal(t, map[string]string{"src/f": "a"}, b.leases())
		})
	}
}
