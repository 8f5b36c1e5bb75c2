package gitdir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/internal/need"
)

const nobody = 65534

// needRoot skips where the kernel cannot be asked; in CI that is a failure.
func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
}

// repo is a bare repository with one worktree per agent, each with its git
// directory seen through a guard.
type repo struct {
	t    *testing.T
	dir  string
	bare string

	locks   *tableOfLocks
	views   map[string]*fusefs.FS // by agent
	mu      sync.Mutex
	denials []Denial
	cleared []Cleared
}

func run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	// A child of this process must not enter a mount this process serves before
	// its exec: both would wait for each other.
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `cd "$0" && exec "$@"`, dir}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_EDITOR=true",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_SEQUENCE_EDITOR=sed -i '1s/^pick/reword/'"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repo) must(dir string, line string) string {
	r.t.Helper()
	out, err := run(r.t, dir, "sh", "-c", line)
	require.NoError(r.t, err, "%s\n%s", line, out)
	return strings.TrimSpace(out)
}

func newRepo(t *testing.T, format string) *repo {
	needRoot(t)
	dir, err := os.MkdirTemp("", "gitdir-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	r := &repo{t: t, dir: dir, bare: filepath.Join(dir, "bare.git"), locks: &tableOfLocks{held: map[string]string{}}, views: map[string]*fusefs.FS{}}
	r.must(dir, "git init -q -b main --object-format="+format+" src && cd src && echo one >f && echo x >g && git add . && git commit -qm one && cd .. && git clone -q --bare src bare.git && git -C bare.git tag v1 && git -C bare.git branch other && git -C bare.git pack-refs --all")
	return r
}

// agent adds a worktree whose .git points at a guarded mount.
func (r *repo) agent(name string, opts ...func(*Config)) (tree, mount string, g *Guard) {
	t := r.t
	tree, mount = filepath.Join(r.dir, name), filepath.Join(r.dir, name+".mnt")
	r.must(r.dir, fmt.Sprintf("git -C bare.git worktree add -q -b agent/%s %s main", name, tree))
	priv := filepath.Join(r.dir, name+".private")
	require.NoError(t, Prepare(priv, r.bare, "", []string{filepath.Join(r.bare, "objects")}, nobody, nobody))
	require.NoError(t, os.Mkdir(mount, 0o755))
	var fds []int
	for _, d := range []string{r.bare, priv} {
		fd, err := unix.Open(d, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		fds = append(fds, fd)
	}
	var view atomic.Pointer[fusefs.FS]
	cfg := Config{Agent: name, Worktree: name, Target: "refs/heads/main", Owned: []string{"refs/heads/agent/" + name}, RootFD: fds[0], PrivateFD: fds[1],
		Locker: holder{r.locks, name}, Journal: r.journal(name), Packs: gitPacks{t, r.bare, filepath.Join(priv, "objects")},
		OnDenial: func(d Denial) { r.mu.Lock(); r.denials = append(r.denials, d); r.mu.Unlock() },
		OnCleared: func(c Cleared) {
			view.Load().InvalidatePath(strings.TrimPrefix(c.Path, ".git/"))
			r.mu.Lock()
			defer r.mu.Unlock()
			r.cleared = append(r.cleared, c)
		}}
	for _, o := range opts {
		o(&cfg)
	}
	g, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() { defer close(swept); g.Run(ctx) }()
	fs, err := fusefs.New(fusefs.Config{Roots: fds, Guard: g, Mountpoint: mount, FsName: "polis-test", NoXattrs: true})
	require.NoError(t, err)
	view.Store(fs)
	r.views[name] = fs
	for _, fd := range fds {
		require.NoError(t, unix.Close(fd))
	}
	require.NoError(t, fs.Mount(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, fs.Unmount(ctx))
		stop()
		<-swept
		require.NoError(t, g.Close())
	})
	require.NoError(t, os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: "+mount+"/worktrees/"+name+"\n"), 0o644))
	return tree, mount, g
}

func (r *repo) refused() []Denial {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Denial(nil), r.denials...)
}

func TestPlainGitWorks(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := newRepo(t, format)
			tree, _, g := r.agent("a1")
			for _, line := range []string{
				"git status --porcelain", "echo two >>f && git add f && git commit -qm two", "echo three >>f && git commit -qam three",
				"git commit -q --amend -m 'three again'", "git log --oneline", "git diff HEAD~1", "git show --stat",
				"echo wip >>f && git stash -q && git stash list | grep -q WIP && git stash pop -q && git checkout -q f",
				"echo w2 >>f && git stash push -q -m x && git stash drop -q",
				"git checkout -q -b feature && echo y >h && git add h && git commit -qm h", "git switch -q agent/a1",
				"git merge -q --no-ff -m merged feature", "git branch -m feature feature2", "git branch -D feature2",
				"git tag t1 && git tag -a -m t t2 && git tag -d t1", "git reset -q --hard HEAD~1",
				"git cherry-pick ORIG_HEAD -m 1", "git revert --no-edit HEAD -m 1 || git revert --no-edit HEAD",
				"git rebase -q -i HEAD~1", "git rebase -q --onto main HEAD~1 agent/a1", "git reflog | head -3", "git notes add -m note HEAD", "git notes show HEAD",
				"git config user.name me && git config user.name", "git clean -fdq", "git restore --source=HEAD~0 f", "git worktree list",
				"git blame f", "git fsck", "git gc --auto", "git for-each-ref", "git rev-parse HEAD", "git bisect start && git bisect bad && git bisect reset",
				"git sparse-checkout set --no-cone /f && git sparse-checkout disable", "git pack-refs --all || true",
			} {
				r.must(tree, line)
			}
			for _, d := range r.refused() {
				t.Logf("refused on the way: %s %s (%s)", d.Op, d.Path, d.Hint)
			}
			require.Contains(t, g.Owned(), "refs/tags/t2")
			out := r.must(r.bare, "git fsck --full --strict 2>&1; git config user.name || echo none; git rev-parse main other v1")
			require.Contains(t, out, "none", "the agent's configuration must not reach the shared one")
			require.NotContains(t, out, "error")
		})
	}
}

func TestHostileAgentIsRefused(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, m, _ := r.agent("a1")
	tree2, _, _ := r.agent("a2")
	r.must(tree2, "echo q >>f && git commit -qam q && git branch a2s")
	obj := r.must(r.bare, "git rev-parse agent/a2")
	added := r.must(tree, "echo added | git hash-object -w --stdin")
	objPath := "objects/" + added[:2] + "/" + added[2:]
	before := r.must(r.bare, "git for-each-ref; git config -l --local | sort; ls hooks | sort")
	for name, line := range map[string]string{
		"write the target branch":         "echo " + obj + " > refs/heads/main",
		"lock the target branch":          "echo " + obj + " > refs/heads/main.lock && mv refs/heads/main.lock refs/heads/main",
		"write another's branch":          "echo " + obj + " > refs/heads/agent/a2",
		"lock another's branch":           ": > refs/heads/a2s.lock",
		"remove another's branch":         "rm -f refs/heads/a2s",
		"overwrite a packed branch":       ": > refs/heads/other.lock",
		"another's reflog":                ": > logs/refs/heads/a2s",
		"see another's worktree":          "ls worktrees/a2",
		"redirect the common directory":   "echo /tmp > worktrees/a1/commondir",
		"symlink a ref":                   "ln -s main refs/heads/mine",
		"symbolic ref":                    "echo 'ref: refs/heads/main' > refs/heads/mine.lock && mv refs/heads/mine.lock refs/heads/mine",
		"overwrite an object":             "echo x > " + objPath,
		"chmod an object":                 "chmod 600 " + objPath,
		"rename an object":                "mv " + objPath + " objects/00",
		"publish under a wrong name":      "mkdir -p objects/aa && echo x > objects/aa/tmp_obj_1 && ln objects/aa/tmp_obj_1 objects/aa/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
		"make an object directly":         "mkdir -p objects/aa; echo x > objects/aa/cccccccccccccccccccccccccccccccccccccc",
		"alternates":                      "echo /tmp > objects/info/alternates",
		"a pack":                          "echo x > objects/pack/pack-1.pack",
		"replace packed-refs":             "echo '" + obj + " refs/heads/main' > packed-refs.new && mv packed-refs.new packed-refs",
		"remove packed-refs":              "rm -f packed-refs",
		"write packed-refs":               "echo >> packed-refs",
		"the bare HEAD":                   "echo 'ref: refs/heads/a' > HEAD",
		"refs of polis":                   "mkdir refs/polis",
		"a device":                        "mknod refs/heads/dev c 1 3",
		"hard link into the own worktree": "ln " + objPath + " worktrees/a1/x",
		"rename a worktree file to a ref": "echo " + obj + " > worktrees/a1/r && mv worktrees/a1/r refs/heads/new",
		"remove a ref directory in use":   "rmdir refs/heads",
		"a ref below the target branch":   "mkdir -p refs/heads/main; echo " + obj + " > refs/heads/main/x.lock && mv refs/heads/main/x.lock refs/heads/main/x",
		"a ref below a packed branch":     "mkdir -p refs/heads/other; : > refs/heads/other/x.lock",
		"shallow":                         "echo " + obj + " > shallow",
		"a remote's branch":               "mkdir -p refs/remotes/origin; echo " + obj + " > refs/remotes/origin/main.lock && mv refs/remotes/origin/main.lock refs/remotes/origin/main",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, m, "sh", "-c", "set -e; "+line)
			require.Error(t, err, out)
			require.Equal(t, before, r.must(r.bare, "git for-each-ref; git config -l --local | sort; ls hooks | sort"))
		})
	}
	require.NotEmpty(t, r.refused())
	r.must(r.bare, "git fsck --full --strict")
	// The private part takes what tools write, and no other agent sees it.
	r.must(m, "echo evil > hooks/post-commit; chmod +x hooks/post-commit; echo x > info/exclude; mkdir sometool; echo x > sometool/f")
	_, err := os.Stat(filepath.Join(r.bare, "hooks", "post-commit"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = os.Stat(filepath.Join(r.bare, "sometool"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What an agent removed is no longer its own: another agent's ref of the
// same name is safe from it.
func TestRemovedRefIsFreeForOthers(t *testing.T) {
	r := newRepo(t, "sha1")
	t1, m1, g1 := r.agent("a1")
	t2, _, g2 := r.agent("a2")
	for _, pack := range []string{"true", "git pack-refs --all"} {
		r.must(t1, "git branch shared")
		r.must(r.bare, pack)
		r.must(t1, "git branch -D shared")
		require.NotContains(t, g1.Owned(), "refs/heads/shared")
		r.must(t2, "git branch shared")
		require.Contains(t, g2.Owned(), "refs/heads/shared")
		out, err := run(t, m1, "sh", "-c", ": > refs/heads/shared.lock")
		require.Error(t, err, out)
		r.must(t2, "git branch -D shared")
	}
}

// A published object cannot be changed through a descriptor or a name that
// was there before.
func TestPublishedObjectIsSealed(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, m, _ := r.agent("a1")
	want := r.must(tree, "echo sealed > s; git hash-object s")
	r.must(tree, "git hash-object -w s")
	kept := filepath.Join(r.dir, "a1.private", "objects", want[:2], want[2:])
	raw, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.NoError(t, os.Remove(kept))
	tmp, final := filepath.Join(m, "objects", want[:2], "tmp_obj_x"), filepath.Join(m, "objects", want[:2], want[2:])
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.Write(raw)
	require.NoError(t, err)
	require.Error(t, os.Link(tmp, final), "still open for writing")
	require.NoError(t, f.Close())
	f, err = os.OpenFile(tmp, os.O_RDWR, 0)
	require.NoError(t, err)
	mem, err := unix.Mmap(int(f.Fd()), 0, len(raw), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Error(t, os.Link(tmp, final), "still mapped for writing")
	require.NoError(t, unix.Munmap(mem))
	require.NoError(t, os.Link(tmp, final), "%+v", r.refused())
	_, err = os.OpenFile(tmp, os.O_WRONLY, 0)
	require.ErrorIs(t, err, syscall.EACCES)
	require.ErrorIs(t, os.Truncate(tmp, 0), syscall.EACCES)
	require.NoError(t, os.Remove(tmp))
	require.ErrorIs(t, os.Link(final, tmp), syscall.EACCES)
	got, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, raw, got)
}

// An object that is written again is in use again: its time is updated.
func TestWritingAnObjectAgainFreshensIt(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, _, _ := r.agent("a1")
	oid := r.must(r.bare, "echo again | git hash-object -w --stdin")
	file := filepath.Join(r.bare, "objects", oid[:2], oid[2:])
	old := time.Now().Add(-30 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(file, old, old))
	r.must(tree, "echo again >again && git add again")
	fi, err := os.Stat(file)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), fi.ModTime(), time.Hour)
}

func TestAgentsCommitAtOnce(t *testing.T) {
	r := newRepo(t, "sha1")
	const agents, commits = 4, 10
	var wg sync.WaitGroup
	errs := make(chan error, agents)
	for i := range agents {
		tree, _, _ := r.agent(fmt.Sprintf("a%d", i))
		wg.Go(func() {
			out, err := run(t, tree, "sh", "-ec", fmt.Sprintf("for i in $(seq %d); do echo $i >>f; git commit -qam c$i; done", commits))
			if err != nil {
				errs <- errors.New(out)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	for i := range agents {
		require.Equal(t, fmt.Sprint(commits), r.must(r.bare, fmt.Sprintf("git rev-list --count main..agent/a%d", i)))
	}
	r.must(r.bare, "git fsck --full --strict")
}

// What is read is what git reads, the reader of the file that an agent replaces.
func FuzzParsePacked(f *testing.F) {
	one := strings.Repeat("a", 40)
	f.Add("# pack-refs with: peeled fully-peeled sorted \n" + one + " refs/tags/v1\n^" + strings.Repeat("b", 40) + "\n")
	f.Add(one + " refs/heads/b\n" + one + " refs/heads/a\n")
	f.Add(one + " refs/heads/b\r\n")
	f.Add(one + " refs/heads/../b\n")
	dir := f.TempDir()
	_, err := exec.LookPath("git")
	withGit := err == nil
	if withGit {
		require.NoError(f, exec.Command("git", "init", "-q", "--bare", dir).Run())
	}
	f.Fuzz(func(t *testing.T, s string) {
		refs, err := parsePacked(strings.NewReader(s))
		if err != nil {
			return
		}
		var want []string
		for name, v := range refs {
			require.True(t, strings.HasPrefix(name, "refs/"))
			hash, peeled, ok := strings.Cut(v, "^")
			require.True(t, isHash(hash) && (!ok || len(peeled) == len(hash)))
			require.Contains(t, s, hash+" "+name+"\n")
			if len(hash) != 40 || strings.Trim(hash, "0") == "" || !refFormat(name) {
				return // no ref of this repository; the check of a new file refuses it
			}
			want = append(want, hash+" "+name+"\n")
		}
		if !withGit {
			return
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "packed-refs"), []byte(s), 0o600))
		out, err := exec.Command("git", "--git-dir="+dir, "for-each-ref", "--format=%(objectname) %(refname)").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.ElementsMatch(t, want, slices.Collect(strings.Lines(string(out))))
	})
}
