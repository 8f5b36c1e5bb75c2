package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdopt continues the work of git worktrees as agents, and changes nothing in them.
func TestAdopt(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.path("own")
	sh := func(script string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = d.dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@y", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@y")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	sh(`mkdir own && cd own && git init -q -b main && printf 'one\ntwo\n' > a.txt && echo b > b.txt && echo '*.log' > .gitignore && git add . && git commit -qm start
git worktree add -q -b feature/login .claude/worktrees/login && cd .claude/worktrees/login
echo three >> a.txt && git commit -qam work && echo four >> a.txt && git rm -q b.txt && mkdir new && echo new > new/file.txt && ln -s file.txt new/link && echo staged > s.txt && git add s.txt
printf '\000\001' > binary && git add binary && echo ignored > x.log && chmod 755 a.txt
cd ../../.. && git worktree add -q --detach ../detached
echo '{"scripts": {"setup": "npm ci"}}' > conductor.json
mkdir .devcontainer && echo '{"forwardPorts": [3000]} // x' > .devcontainer/devcontainer.json`)
	state := func() string {
		return sh(`cd own/.claude/worktrees/login && git status --porcelain=v2 --ignored && git rev-parse HEAD && find . -path ./.git -prune -o -type f -printf '%p %m %s %T@\n' | sort && git -C ../../.. worktree list`)
	}
	before := state()

	type result struct {
		Worktrees []struct {
			Path, Agent, Branch, Reason string
			Commits, Changed, Untracked int
			Done                        bool
		}
		Settings []struct {
			File, Key, Note string
			Options         []string
		}
	}
	read := func(args ...string) (r result) {
		require.NoError(t, json.Unmarshal([]byte(d.must(append([]string{"--json", "adopt", "--repo", repo}, args...)...)), &r))
		return r
	}
	dry := read("--dry-run")
	require.Len(t, dry.Worktrees, 2)
	require.Equal(t, []string{"detached", "login"}, []string{dry.Worktrees[0].Agent, dry.Worktrees[1].Agent}, "by name")
	require.False(t, dry.Worktrees[0].Done || dry.Worktrees[1].Done)
	require.Len(t, dry.Settings, 2)
	require.NotContains(t, d.must("agents", "list"), "login")

	got := read()
	w := got.Worktrees[1]
	require.True(t, w.Done, w.Reason)
	require.Equal(t, []int{1, 4, 2}, []int{w.Commits, w.Changed, w.Untracked})
	require.True(t, got.Worktrees[0].Done, got.Worktrees[0].Reason)
	require.Equal(t, before, state(), "the worktree is as it was")
	require.Equal(t, "one\ntwo\nthree\nfour\n", d.sh("login", "cat a.txt"))
	require.Equal(t, "new\n", d.sh("login", "cat new/link"))
	require.Equal(t, "work\nstart\n", d.sh("login", "git log --format=%s"))
	require.Contains(t, d.sh("login", "git status --porcelain; stat -c %a a.txt; test ! -e x.log && echo no log"), "?? new/\n755\nno log\n")
	require.Equal(t, "one\ntwo\n", d.sh("detached", "cat a.txt"))

	// What cannot be adopted is reported, and leaves no agent.
	r := d.ctl("--json", "adopt", "--repo", repo, "--base", "nosuch", repo+"/.claude/worktrees/login")
	require.NotZero(t, r.code)
	require.Contains(t, r.stdout, "there is no such type")
	require.NotContains(t, d.must("agents", "list"), "login-2")
	// git refuses the repository of another user, whose configuration could run programs.
	others := d.smallRepo()
	t.Setenv("GIT_CONFIG_COUNT", "1") // also if root has this, as in many containers
	t.Setenv("GIT_CONFIG_KEY_0", "safe.directory")
	t.Setenv("GIT_CONFIG_VALUE_0", "*")
	d.hinted("run this as the owner of the project, a member of the group polis", "adopt", "--repo", others)
	require.NotZero(t, d.ctl("adopt", "--repo", repo, d.path("none")).code)
	require.NotZero(t, d.ctl("adopt", "--repo", d.dir).code, "no repository")
}
