package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scanner is a hook that finds a secret in what is committed. It leaves a file where it runs.
const scanner = "#!/bin/sh\nexec >&2\ntouch /tmp/polis-e2e-hook-ran\nif git diff --cached | grep -q '^+.*AKIA'; then echo 'a secret is in the commit'; exit 1; fi\n"

// hooksConfig: the hooks run for agents, but not for one that is called plain.
const hooksConfig = "[git]\nhooks = \"run\"\n[git.agents.plain]\nhooks = \"off\"\n"

// TestGitHooksOfTheProjectRunForAgents has a secret scanner in the places where projects have their hooks.
func TestGitHooksOfTheProjectRunForAgents(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		plant     func(d *daemon, repo string)
	}{
		{"the git directory", ".git/hooks", func(d *daemon, repo string) {
			d.write("src/.git/hooks/pre-commit", scanner)
			require.NoError(t, os.Chmod(repo+"/.git/hooks/pre-commit", 0o755))
		}},
		{"a link to a script", ".git/hooks", func(d *daemon, repo string) {
			require.NoError(t, os.MkdirAll(repo+"/scripts", 0o755))
			d.write("src/scripts/scan", scanner)
			require.NoError(t, os.Chmod(repo+"/scripts/scan", 0o755))
			require.NoError(t, os.Symlink("../../scripts/scan", repo+"/.git/hooks/pre-commit"))
		}},
		{"a directory of the repository", ".githooks", func(d *daemon, repo string) {
			require.NoError(t, os.MkdirAll(repo+"/.githooks", 0o755))
			d.write("src/.githooks/pre-commit", "#!/bin/sh\n. $(dirname $0)/../scan.sh\n")
			d.write("src/scan.sh", scanner)
			require.NoError(t, os.Chmod(repo+"/.githooks/pre-commit", 0o755))
			git(t, repo, "config", "core.hooksPath", ".githooks")
			git(t, repo, "add", "-A")
			git(t, repo, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "Hooks")
		}},
		{"husky", ".husky/_", func(d *daemon, repo string) {
			needProgram(t, "husky")
			d.write("src/package.json", `{"name":"x","private":true,"scripts":{"prepare":"husky"}}`)
			d.giveAway(repo)
			d.asOwner(repo, "config", "user.name", "Owner")
			d.ownersProgram(repo, "husky")
			require.FileExists(t, repo+"/.husky/_/pre-commit", "husky has made no hooks")
			d.write("src/.husky/pre-commit", scanner)
			git(t, repo, "add", "-A")
			git(t, repo, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "Husky")
		}},
		{"lefthook", ".git/hooks", func(d *daemon, repo string) {
			needProgram(t, "lefthook")
			d.write("src/lefthook.yml", "pre-commit:\n  commands:\n    scan:\n      run: sh ./scan.sh\n")
			d.write("src/scan.sh", scanner)
			d.giveAway(repo)
			d.ownersProgram(repo, "lefthook", "install")
			require.FileExists(t, repo+"/.git/hooks/pre-commit", "lefthook has made no hooks")
			git(t, repo, "add", "-A")
			git(t, repo, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "Lefthook")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoFileExists(t, "/tmp/polis-e2e-hook-ran")
			d := startDaemon(t, options{config: hooksConfig})
			repo := d.smallRepo()
			c.plant(d, repo)
			d.giveAway(repo)
			up := d.must("up", "--repo", repo, d.path("ws"))
			require.NotContains(t, up, "hooks", "they run")
			require.Empty(t, d.add("alice").Warnings)
			const leak = ident + "cd \"$(git rev-parse --show-toplevel)\"; echo 'key = AKIAIOSFODNN7EXAMPLE' > key.txt; git add key.txt; git commit -qm key"
			r := d.exec("alice", "sh", "-ec", leak)
			require.NotZero(t, r.code, "%s", r)
			require.Contains(t, r.stderr, "a secret is in the commit")
			d.sh("alice", "test -e /tmp/polis-e2e-hook-ran") // its own /tmp
			// Nor is a git worktree of its own a way around them.
			r = d.exec("alice", "sh", "-ec", "git worktree add -q -b sub/around $HOME/around; cd $HOME/around; "+leak)
			require.NotZero(t, r.code, "%s", r)
			require.Contains(t, r.stderr, "a secret is in the commit")
			d.sh("alice", "git worktree remove --force $HOME/around; git branch -qD sub/around")
			d.sh("alice", ident+"echo 'key = ...' > key.txt; git add key.txt; git commit -qm key")
			require.Contains(t, d.sh("alice", "cat /run/polis/AGENTS.md"), ") run when you use git here")
			// No hook runs on the host, and the agent cannot change those that it was given.
			d.must("merge", "alice")
			require.NoFileExists(t, "/tmp/polis-e2e-hook-ran")
			d.sh("alice", "for f in $(find /run/polis/hooks -type f 2>/dev/null); do if echo : > $f; then exit 1; fi; done 2>/dev/null")
			// One that has them off gets a warning.
			plain := d.add("plain")
			require.Len(t, plain.Warnings, 1)
			require.Contains(t, plain.Warnings[0], "git hooks in "+c.dir+" (")
			require.Contains(t, plain.Warnings[0], `[git] hooks = "run"`)
			require.Contains(t, d.sh("plain", "cat /run/polis/AGENTS.md"), "which do not run for you")
			d.sh("plain", leak)
		})
	}
}

// TestGitHooksThatDoNotRunAreReported: at up, init and add, with what can be done.
func TestGitHooksThatDoNotRunAreReported(t *testing.T) {
	const uid = 4407
	d := startDaemon(t, options{user: uid})
	repo := d.smallRepo()
	for _, name := range []string{"pre-commit", "commit-msg"} {
		d.write("src/.git/hooks/"+name, scanner)
		require.NoError(t, os.Chmod(filepath.Join(repo, ".git/hooks", name), 0o755))
	}
	d.write("src/.git/hooks/pre-push", scanner) // nobody may execute it: git does not run it either
	own := func(dir string) { require.NoError(t, exec.Command("chown", "-R", "4407:4407", dir).Run()) }
	own(repo)
	const notice = `git hooks in .git/hooks (commit-msg, pre-commit) do not run for agents and merges; [git] hooks = "run"`
	r := d.ctl("up", "--repo", repo, d.path("ws"))
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout+r.stderr, notice)
	require.Contains(t, d.must("--json", "up", "--repo", repo, d.path("ws")), "do not run for agents and merges")
	r = d.ctl("init", "--repo", repo, "--base", "custom", "--yes", "--config", d.path("polisd.toml"))
	require.Contains(t, strings.Join(strings.Fields(r.stdout), " "), notice, "the table wraps it")
	r = d.ctl("agents", "add", "alice", "--base", "custom")
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout+r.stderr, notice)

	// Hooks of all projects of the owner, in the owner's home.
	require.NoError(t, os.MkdirAll(d.path("home", "hooks"), 0o755))
	d.write("home/hooks/pre-commit", scanner)
	d.write("home/.gitconfig", "[core]\n\thooksPath = ~/hooks\n")
	require.NoError(t, os.Chmod(d.path("home", "hooks", "pre-commit"), 0o755))
	own(d.path("home"))
	r = d.ctl("up", "--repo", repo, d.path("ws"))
	require.Contains(t, r.stdout+r.stderr, "git hooks in "+d.path("home", "hooks")+" (pre-commit) do not run for agents and merges: they are not in the project")
	d.write("home/.gitconfig", "[core]\n\thooksPath = /dev/null\n")
	own(d.path("home"))
	r = d.ctl("up", "--repo", repo, d.path("ws"))
	require.NotContains(t, r.stdout+r.stderr, "hooks")
}

// TestGitHooksOfTheProjectShowNoMoreThanTheRules: a hook is no way to what the agent may not read.
func TestGitHooksOfTheProjectShowNoMoreThanTheRules(t *testing.T) {
	d := startDaemon(t, options{config: hooksConfig})
	repo := d.smallRepo()
	d.write("src/.env", "PASSWORD=swordfish\n")
	require.NoError(t, os.MkdirAll(repo+"/scripts", 0o755))
	// An agent's branch can make a script such a link, which the merge brings into the owner's checkout.
	require.NoError(t, os.Symlink("../.env", repo+"/scripts/pre-commit"))
	require.NoError(t, os.Symlink("../../scripts/pre-commit", repo+"/.git/hooks/pre-commit"))
	require.NoError(t, os.Symlink("../../secret/key.txt", repo+"/.git/hooks/commit-msg"))
	require.NoError(t, os.Symlink("/etc/passwd", repo+"/.git/hooks/pre-push"))
	require.NoError(t, os.Chmod(repo+"/.env", 0o755))
	require.NoError(t, os.Chmod(repo+"/secret/key.txt", 0o755))
	d.write("src/.git/hooks/post-commit", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(repo+"/.git/hooks/post-commit", 0o755))
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	d.add("alice", "--deny", "secret/**")
	text := d.sh("alice", "grep -r '' /run/polis/hooks")
	require.Contains(t, text, "git/post-commit:#!/bin/sh")
	require.NotContains(t, text, "swordfish")
	require.NotContains(t, text, "root:")
	require.NotContains(t, text, ":secret")
	// They refuse instead of being left out.
	r := d.exec("alice", "sh", "-ec", ident+"echo x >> main.txt; git commit -qam x")
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "the hook pre-commit of this project cannot run here")
	require.Contains(t, text, "the rules of this agent withhold it")
}
