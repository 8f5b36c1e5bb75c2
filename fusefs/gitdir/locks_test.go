package gitdir

import (
	"context"
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
)

// Feature: multi-agent-workspaces, Property 13: Git Mutex Non-Blocking Operations
func TestLocksThatGitTakes(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, _, _ := r.agent("a1")
	r.must(tree, "git config user.name a; echo x > y; git add y; git commit -qm y")
	const own = "refs/heads/agent/a1"
	for _, c := range []struct {
		line string
		want []string
	}{
		{"echo z >> y; git status", nil},
		{"git diff; git add y; git diff --cached; git log -1; git show; git stash list; git reset -q y", nil},
		{"git stash -q; git stash pop -q", []string{own, "packed-refs"}}, // reset locks the branch; refs/stash is the agent's own
		{"git commit -qam z", []string{own}},
		{"git branch b1", []string{"refs/heads/b1"}},
		{"git checkout -q -b b2; echo q >> y; git commit -qam q; git checkout -q agent/a1", []string{"refs/heads/b2"}},
		{"git branch -D b1", []string{"packed-refs", "refs/heads/b1", "packed-refs"}},
		{"git tag t1", []string{"refs/tags/t1"}},
		{"git gc --auto", nil},
		{"git gc -q || true", []string{"all"}},
	} {
		r.locks.history()
		r.must(tree, c.line)
		got := r.locks.history()
		if len(c.want) == 1 && c.want[0] == "all" {
			require.Contains(t, got, "all", c.line) // and what it packs, one by one
			continue
		}
		require.Equal(t, c.want, got, c.line)
	}
	require.Eventually(t, func() bool { r.locks.mu.Lock(); defer r.locks.mu.Unlock(); return len(r.locks.held) == 0 }, 30*time.Second, 10*time.Millisecond,
		"every lock was given back")
	require.Empty(t, lockFiles(t, r.bare))
	r.must(r.bare, "git fsck --full --strict")
}

func TestLockOfAnotherIsWaitedFor(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, m, _ := r.agent("a1")
	r.must(tree, "echo x > y; git add y")
	for _, c := range []struct {
		key, line, code string
	}{
		{"refs/heads/agent/a1", "git commit -qm y", "BRANCH_LOCK_TIMEOUT"},
		{"all", "git commit -qm y", "BRANCH_LOCK_TIMEOUT"},
		{"refs/heads/other", "git gc -q", "EXCLUSIVE_LOCK_TIMEOUT"},
		{"packed-refs", "git pack-refs", "BRANCH_LOCK_TIMEOUT"},
	} {
		r.locks.block(c.key, "polisd:git:1")
		out, err := run(t, tree, "sh", "-c", c.line)
		require.Error(t, err, out)
		d := r.refused()[len(r.refused())-1]
		require.Equal(t, []any{c.code, "polisd:git:1", syscall.EBUSY}, []any{d.Code, d.Holder, d.Errno}, "%s: %+v", c.line, d)
		r.locks.free(c.key)
	}
	r.locks.mu.Lock()
	r.locks.away = true
	r.locks.mu.Unlock()
	_, err := os.OpenFile(filepath.Join(m, "refs/heads/agent/a1.lock"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	require.ErrorIs(t, err, syscall.EAGAIN, "what cannot be asked is not granted")
	r.locks.mu.Lock()
	r.locks.away = false
	r.locks.mu.Unlock()
	r.must(tree, "git commit -qm y")
	// A lock that was lost between the lock file and its rename publishes nothing.
	head := r.must(tree, "git rev-parse HEAD~1")
	require.NoError(t, os.WriteFile(filepath.Join(m, "refs/heads/agent/a1.lock"), []byte(head+"\n"), 0o644))
	r.locks.mu.Lock()
	r.locks.lost = true
	r.locks.mu.Unlock()
	require.ErrorIs(t, os.Rename(filepath.Join(m, "refs/heads/agent/a1.lock"), filepath.Join(m, "refs/heads/agent/a1")), syscall.EAGAIN)
}

// killed makes files in dir from a process that keeps them open, and kills it.
func killed(t *testing.T, dir string, names ...string) {
	t.Helper()
	script := ""
	for i, n := range names {
		script += "exec " + string(rune('3'+i)) + ">" + n + "; "
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", `cd "$0"; `+script+`kill -9 $$`, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "killed", string(out))
}

func TestLockOfADeadProcessIsCleared(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, m, _ := r.agent("a1")
	r.must(tree, "git branch mine; git config a.b c")
	locks := []string{"worktrees/a1/index.lock", "worktrees/a1/HEAD.lock", "refs/heads/agent/a1.lock", "packed-refs.lock", "packed-refs.new", "config.lock"}
	killed(t, m, locks...)
	require.Equal(t, "a1", r.locks.who("refs/heads/agent/a1"))
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.cleared) == len(locks)
	}, 30*time.Second, 20*time.Millisecond)
	for _, c := range r.cleared {
		require.Contains(t, c.Why, "has ended")
		require.NotZero(t, c.Pid)
	}
	require.Empty(t, lockFiles(t, r.bare, filepath.Join(r.dir, "a1.private")))
	require.Empty(t, r.locks.who("refs/heads/agent/a1"))
	r.must(tree, "echo x > y; git add y; git commit -qm y; git branch -D mine; git config a.b d; git pack-refs")
}

func TestLockOfALivingProcessStays(t *testing.T) {
	r := newRepo(t, "sha1")
	_, m, _ := r.agent("a1")
	// The maker lives, without the file open; another's is open in its child only.
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", `cd "$0"; : > worktrees/a1/index.lock; sh -c 'exec sleep 1000 3>worktrees/a1/HEAD.lock' & sleep 0.2; read x`, m)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = in.Close()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { return len(lockFiles(t, r.bare)) == 2 }, 30*time.Second, 10*time.Millisecond)
	time.Sleep(goneWait + 4*sweepEvery)
	require.Len(t, lockFiles(t, r.bare), 2)
}

func TestLockKeptForTooLongIsGivenToOthers(t *testing.T) {
	r := newRepo(t, "sha1")
	var ahead time.Duration
	clock := func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return time.Now().Add(ahead) }
	_, m, _ := r.agent("a1", func(c *Config) { c.Now = clock })
	t2, _, _ := r.agent("a2")
	files := []string{"refs/heads/agent/a1.lock", "packed-refs.lock", "gc.pid.lock"}
	for _, name := range files {
		f, err := os.OpenFile(filepath.Join(m, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		defer f.Close()
	}
	out, err := run(t, t2, "git", "branch", "b")
	require.Error(t, err, out)
	for _, step := range []struct {
		ahead time.Duration
		left  []string
	}{
		{allBound + time.Second, []string{"refs/heads/agent/a1", "packed-refs"}},
		{packedBound + time.Second, []string{"refs/heads/agent/a1"}},
		{refBound + time.Second, nil},
	} {
		r.mu.Lock()
		ahead = step.ahead
		r.mu.Unlock()
		require.Eventually(t, func() bool {
			n := 0
			for _, k := range []string{"all", "packed-refs", "refs/heads/agent/a1"} {
				if r.locks.who(k) == "a1" {
					n++
				}
			}
			return n == len(step.left)
		}, 30*time.Second, 20*time.Millisecond)
		for _, k := range step.left {
			require.Equal(t, "a1", r.locks.who(k))
		}
	}
	require.Empty(t, lockFiles(t, r.bare))
	for _, name := range files {
		_, err := os.OpenFile(filepath.Join(m, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		require.Error(t, err, "%s is left to others for a while", name)
	}
	r.must(t2, "git branch b; git branch -D b; git pack-refs --all")
	// What was taken away publishes nothing.
	require.Error(t, os.Rename(filepath.Join(m, files[0]), filepath.Join(m, "refs/heads/agent/a1")))
}

func TestRecoverRemovesWhatAKilledServerLeft(t *testing.T) {
	r := newRepo(t, "sha1")
	_, m, _ := r.agent("a1")
	files := []string{"refs/heads/agent/a1.lock", "refs/heads/fresh.lock", "packed-refs.lock", "worktrees/a1/index.lock", "config.lock"}
	for _, name := range files {
		f, err := os.OpenFile(filepath.Join(m, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		defer f.Close()
	}
	text, err := os.ReadFile(r.journal("a1"))
	require.NoError(t, err)
	// The state that a killed server left on the disk, with a line that was being written; and a
	// lock that was removed and made again by another process.
	left := filepath.Join(r.dir, "left")
	require.NoError(t, os.WriteFile(left, append(text, "0 12"...), 0o600))
	again := filepath.Join(r.bare, files[1])
	require.NoError(t, os.Remove(again))
	time.Sleep(20 * time.Millisecond) // a coarse clock
	require.NoError(t, os.WriteFile(again, nil, 0o644))
	cleared, err := Recover(left, r.bare, filepath.Join(r.dir, "a1.private"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{files[0], files[2], files[3], files[4]}, cleared)
	require.Equal(t, []string{again}, lockFiles(t, r.bare, filepath.Join(r.dir, "a1.private")))
	fi, err := os.Stat(left)
	require.NoError(t, err)
	require.Zero(t, fi.Size())
	cleared, err = Recover(left, r.bare, filepath.Join(r.dir, "a1.private"))
	require.NoError(t, err)
	require.Empty(t, cleared)
	cleared, err = Recover(filepath.Join(r.dir, "none"), r.bare)
	require.NoError(t, err)
	require.Empty(t, cleared)
}

func TestJournalIsEmptyWithoutLocks(t *testing.T) {
	r := newRepo(t, "sha1")
	tree, _, _ := r.agent("a1")
	r.must(tree, "for i in 1 2 3; do echo $i > y; git add y; git commit -qm $i; done; git branch b; git branch -D b")
	require.Eventually(t, func() bool {
		fi, err := os.Stat(r.journal("a1"))
		return err == nil && fi.Size() == 0
	}, 10*time.Second, 10*time.Millisecond)
}

func TestProcessesAreDistinguishedByStartTime(t *testing.T) {
	require.True(t, process{}.alive(), "what cannot be seen is not taken for dead")
	require.True(t, leader(uint32(os.Getpid())))
	require.False(t, leader(0))
	thread := make(chan bool)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		thread <- unix.Gettid() != os.Getpid() && leader(uint32(unix.Gettid()))
	}()
	require.False(t, <-thread, "a thread is no process")
	me := processOf(uint32(unix.Gettid()))
	require.Equal(t, os.Getpid(), me.id)
	require.True(t, me.alive())
	me.start += "1"
	require.False(t, me.alive(), "a later process of the same number")
	cmd := exec.CommandContext(t.Context(), "true")
	require.NoError(t, cmd.Start())
	p := processOf(uint32(cmd.Process.Pid))
	require.Eventually(t, func() bool { return !p.alive() }, 30*time.Second, time.Millisecond, "a zombie has ended")
	require.NoError(t, cmd.Wait())
	require.False(t, p.alive())
}

func FuzzRecoverLine(f *testing.F) {
	f.Add("0 12 13.000000014 refs/heads/x.lock")
	f.Add("9 1 1.1 ../../etc/passwd")
	f.Fuzz(func(t *testing.T, s string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		path, err := recoverLine(strings.ReplaceAll(s, "\n", " "), []int{fd})
		require.Empty(t, path)
		_ = err
		require.FileExists(t, filepath.Join(dir, "x"))
	})
}
