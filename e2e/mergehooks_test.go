package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// mergeScanner is a hook for merges. git must show it the merge as it shows it in the checkout of a person.
const mergeScanner = `#!/bin/sh
exec >&2
touch /tmp/polis-e2e-merge-hook
test "$(git symbolic-ref HEAD)" = refs/heads/main || { echo "HEAD is not the target"; exit 1; }
test -n "$(git rev-parse MERGE_HEAD)" && git cat-file -e MERGE_HEAD || { echo "there is no MERGE_HEAD"; exit 1; }
git diff --quiet || { echo "the files are not those of the index"; exit 1; }
if git diff --cached | grep -q '^+.*AKIA'; then echo 'a secret is in the merge'; exit 1; fi
`

const ticket = "#!/bin/sh\nexec >&2\ngrep -q '^[A-Z]*-[0-9]' \"$1\" || { echo 'the message names no ticket'; exit 1; }\n"

// TestMergesRunTheHooksOfTheProject: in the sandbox of the check, before its command.
func TestMergesRunTheHooksOfTheProject(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(d *daemon, repo string)
	}{
		{"the git directory", func(d *daemon, repo string) {
			d.write("src/.git/hooks/pre-merge-commit", mergeScanner)
			d.write("src/.git/hooks/commit-msg", ticket)
			for _, name := range []string{"pre-merge-commit", "commit-msg"} {
				require.NoError(t, os.Chmod(repo+"/.git/hooks/"+name, 0o755))
			}
		}},
		{"a directory of the repository", func(d *daemon, repo string) {
			require.NoError(t, os.MkdirAll(repo+"/.githooks", 0o755))
			d.write("src/.githooks/pre-merge-commit", "#!/bin/sh\n. $(dirname $0)/../scan.sh\n")
			d.write("src/.githooks/commit-msg", ticket)
			d.write("src/scan.sh", mergeScanner)
			for _, name := range []string{"pre-merge-commit", "commit-msg"} {
				require.NoError(t, os.Chmod(repo+"/.githooks/"+name, 0o755))
			}
			git(t, repo, "config", "core.hooksPath", ".githooks")
			git(t, repo, "add", "-A")
			git(t, repo, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "Hooks")
		}},
		{"husky", func(d *daemon, repo string) {
			needProgram(t, "husky")
			d.giveAway(repo)
			d.ownersProgram(repo, "husky")
			require.FileExists(t, repo+"/.husky/_/pre-merge-commit", "husky has made no hooks")
			d.write("src/.husky/pre-merge-commit", mergeScanner)
			d.write("src/.husky/commit-msg", ticket)
			git(t, repo, "add", "-A")
			git(t, repo, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "Husky")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := startDaemon(t, options{config: "[merge]\nhooks = true\ncheck = \"test ! -e .git; test -e main.txt; test ! -e broken.txt\"\n"})
			repo := d.smallRepo()
			d.giveAway(repo)
			c.plant(d, repo)
			require.NoError(t, os.Chmod(repo, 0o755))
			d.giveAway(repo)
			d.must("up", "--repo", repo, d.path("ws"))
			d.add("alice")
			d.sh("alice", ident+"git config core.hooksPath /dev/null; echo 'key = AKIAIOSFODNN7EXAMPLE' > key.txt; git add key.txt; git commit -qm key")
			before := git(t, repo, "rev-parse", "main")
			e := d.refused(api.CodeCheckFailed, "merge", "alice", "-m", "ABC-1: take it")
			require.Contains(t, e.Details["output"], "a secret is in the merge\n")
			require.Contains(t, e.Details["output"], "the git hook pre-merge-commit refuses the merge")
			d.sh("alice", ident+"echo 'key = ...' > key.txt; git commit -qam 'no key'")
			e = d.refused(api.CodeCheckFailed, "merge", "alice")
			require.Contains(t, e.Details["output"], "the message names no ticket\n")
			require.Contains(t, e.Details["output"], "the git hook commit-msg refuses the merge")
			require.Equal(t, before, git(t, repo, "rev-parse", "main"))
			require.Contains(t, d.must("merge", "alice", "-m", "ABC-1: take it"), "project: updated")
			require.NoFileExists(t, "/tmp/polis-e2e-merge-hook", "a hook ran on the host")
			// Then the command of the check runs, without the repository.
			d.sh("alice", ident+"echo > broken.txt; git add broken.txt; git commit -qm broken")
			require.Nil(t, d.refused(api.CodeCheckFailed, "merge", "alice", "-m", "ABC-2: break it").Details["output"], "no hook refuses")
		})
	}
}

// TestAProjectWithoutHooksForMergesIsMerged, and hooks that cannot run refuse.
func TestAProjectWithoutHooksForMergesIsMerged(t *testing.T) {
	d := startDaemon(t, options{config: "[merge]\nhooks = true\n"})
	repo := d.up()
	d.add("alice")
	d.sh("alice", ident+"echo a > a.txt; git add a.txt; git commit -qm a")
	d.must("merge", "alice")
	require.NoError(t, os.Mkdir(d.path("hooks"), 0o755))
	d.write("hooks/commit-msg", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(d.path("hooks", "commit-msg"), 0o755))
	git(t, repo, "config", "core.hooksPath", d.path("hooks"))
	d.giveAway(repo)
	d.sh("alice", ident+"echo b > b.txt; git add b.txt; git commit -qm b")
	require.Contains(t, d.refused(api.CodeCheckFailed, "merge", "alice").Message, "are not in the project, and cannot run for a merge")
	d.must("merge", "alice", "--no-check")
}
