package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// storm is the amount of work. POLIS_STORM=full is the specified amount, and takes minutes.
func storm() (agents, commits int) {
	if os.Getenv("POLIS_STORM") == "full" {
		return 10, 50
	}
	return 6, 8
}

// pack has git, as the owner of the repository, pack everything that refs lead
// to: loose objects vanish under those who read them, as packs do in maintenance.
// git repack -a wants what agents' indexes lead to as well, which only they have.
func pack(bare string) ([]byte, error) {
	cmd := exec.Command("sh", "-ec", `git for-each-ref --format='%(objectname)' > "$1"; git pack-objects -q --revs --delta-base-offset objects/pack/pack < "$1"; rm "$1"; git prune-packed -q`,
		"sh", filepath.Join(bare, "refs-to-pack"))
	cmd.Dir = bare
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=gc.auto", "GIT_CONFIG_VALUE_1=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	return cmd.CombinedOutput()
}

// reportedError returns the error in the JSON of a maintenance run.
func reportedError(out string) string {
	var rep api.MaintenanceReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		return err.Error()
	}
	return rep.Error
}

// TestAgentsCommitWhileOthersMergeAndPack: all agents commit at the same time as maintenance, a
// repack by the owner and two merges. Every commit succeeds at the first try.
func TestAgentsCommitWhileOthersMergeAndPack(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.up()
	agents, commits := storm()
	name := func(i int) string { return fmt.Sprintf("agent%02d", i) }
	for i := range agents {
		d.add(name(i))
	}
	bare := d.path("ws", ".polis", "bare-repo.git")
	results, done := make([]result, agents), make(chan struct{})
	var wg, others sync.WaitGroup
	for i := range agents {
		wg.Go(func() {
			results[i] = d.exec(name(i), "sh", "-ec", fmt.Sprintf(
				"%[1]s for n in $(seq %[2]d); do mkdir -p %[3]s; for f in 1 2 3; do echo $n >> %[3]s/$f; done; git add -A; git commit -q -m \"$n\"; git status --porcelain; git branch %[3]s-$n; [ $((n %% 5)) != 0 ] || git branch -q -D %[3]s-$n; done",
				ident, commits, name(i)))
		})
	}
	var failed []string
	maintained := 0
	others.Go(func() {
		for {
			// Maintenance and an owner's own git gc, in turn.
			if r := d.ctl("--json", "maintenance", "--now"); r.code != 0 || reportedError(r.stdout) != "" {
				failed = append(failed, r.String())
			}
			if out, err := pack(bare); err != nil {
				failed = append(failed, fmt.Sprint(err, ": ", string(out)))
			}
			maintained++
			select {
			case <-done:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	merges := make([]result, 2)
	others.Go(func() {
		for i := range merges {
			for range 100 { // until it has something to merge
				if merges[i] = d.ctl("merge", name(i)); merges[i].code == 0 {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	wg.Wait()
	close(done)
	others.Wait()
	for i, r := range results {
		require.Zero(t, r.code, "%s: %s", name(i), r)
		require.Equal(t, fmt.Sprint(commits), strings.TrimSpace(git(t, bare, "rev-list", "--count", "--author=a@b.example", "agent/"+name(i))))
		n := strings.Count(git(t, bare, "for-each-ref", "--format=%(refname)", "--points-at", "agent/"+name(i)), "refs/heads/agent/"+name(i))
		require.Equal(t, 1, n)
	}
	for _, r := range merges {
		require.Zero(t, r.code, r.String())
	}
	require.Empty(t, failed)
	require.Positive(t, maintained)
	t.Logf("%d commits beside %d runs of maintenance", agents*commits, maintained)
	git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
	require.Empty(t, d.gitLocks())
	require.Empty(t, lockFiles(t, bare))
}

func lockFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".lock") || filepath.Base(path) == "packed-refs.new" {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// TestKilledGitHarmsNoAgent kills git processes of agents at random while they commit. Their
// residue is removed, the agents continue, and in the end the repository is sound.
func TestKilledGitHarmsNoAgent(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
	d.up()
	agents, commits := storm()
	pause, patience := 800, 300 // the most milliseconds between two kills, and the seconds in total
	if agents == 10 {
		pause, patience = 150, 400
	}
	agents = min(agents, 4)
	var wg, killer sync.WaitGroup
	results := make([]result, agents)
	done := make(chan struct{})
	for i := range agents {
		d.add(fmt.Sprintf("agent%02d", i))
	}
	bare := d.path("ws", ".polis", "bare-repo.git")
	for i := range agents {
		wg.Go(func() {
			results[i] = d.exec(fmt.Sprintf("agent%02d", i), "sh", "-c", fmt.Sprintf(
				`git config user.name a; until git config user.email a@b.example; do sleep 0.2; done
end=$(($(date +%%s) + %[3]d)); n=0
while [ $n -lt %[1]d ]; do
  [ $(date +%%s) -lt $end ] || exit 9
  echo $n.$(date +%%N) >> f%[2]d; git add -A && git commit -q -m $n && git branch -f k%[2]d-$((n %% 3)) && git pack-refs && n=$((n+1)) && continue
  sleep 0.1
done 2>$HOME/err`, commits, i, patience))
		})
	}
	killed := 0
	killer.Go(func() {
		for {
			var pids []int
			for _, f := range glob("/proc/[0-9]*/comm") {
				pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
				if strings.TrimSpace(readFile(f)) == "git" && strings.Contains(readFile(fmt.Sprintf("/proc/%d/mountinfo", pid)), d.dir+"/ws/.polis/bare-repo.git") &&
					strings.Contains(readFile(fmt.Sprintf("/proc/%d/cgroup", pid)), "/agent0") {
					pids = append(pids, pid)
				}
			}
			if len(pids) > 0 && syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil {
				killed++
			}
			wait := time.Duration(pause/4+rand.IntN(pause)) * time.Millisecond
			if killed == 0 { // git runs for milliseconds: frequent polling catches the first one
				wait = 2 * time.Millisecond
			}
			select {
			case <-done:
				return
			case <-time.After(wait):
			}
		}
	})
	wg.Wait()
	close(done)
	killer.Wait()
	t.Logf("%d git processes were killed", killed)
	require.Positive(t, killed)
	for i, r := range results {
		require.Zero(t, r.code, "%s\n%s", r, d.exec(fmt.Sprintf("agent%02d", i), "sh", "-c", "tail -n 20 $HOME/err"))
	}
	d.eventually("no lock to stay behind", func() bool { return len(lockFiles(t, bare))+len(d.gitLocks()) == 0 })
	git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
	for i := range agents {
		a := fmt.Sprintf("agent%02d", i)
		n, err := strconv.Atoi(strings.TrimSpace(git(t, bare, "rev-list", "--count", "main..agent/"+a)))
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, commits)
		d.sh(a, "git fsck; echo end > end; git add end; git commit -qm end")
	}
}
