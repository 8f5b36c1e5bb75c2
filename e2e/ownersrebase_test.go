package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// ownerRuns runs a script as the owner of the project, in the project.
func (d *daemon) ownerRuns(project, script string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "sh", "-ec", script)
	cmd.Dir = project
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "GIT_EDITOR=true", "GIT_AUTHOR_NAME=Owner", "GIT_AUTHOR_EMAIL=o@example.com", "GIT_COMMITTER_NAME=Owner", "GIT_COMMITTER_EMAIL=o@example.com"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	out, err := cmd.CombinedOutput()
	require.NoError(d.t, err, "%s\n%s", script, out)
	return string(out)
}

// TestWhatTheOwnerHasBegunIsLeftAlone: a merge that comes while git has not ended what the owner began on the target
// leaves the branch and the files as they are, and the next one brings both.
func TestWhatTheOwnerHasBegunIsLeftAlone(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.ownerRuns(project, `git checkout -qb other; echo theirs >>main.txt; git commit -qam theirs; git checkout -q main; echo ours >>main.txt; git commit -qam ours`)
	d.add("alice")
	merged := func(file string) api.MergeResponse {
		t.Helper()
		d.sh("alice", ident+commitOf(file, file))
		var r api.MergeResponse
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "merge", "alice")), &r))
		return r
	}
	const tip = "git rev-parse HEAD main; cat main.txt"
	for _, c := range []struct{ file, begin, reason, end string }{
		{"rebase", `GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git rebase -q -i HEAD`, "a rebase is in progress in the checkout, on branch main", "git rebase --continue"},
		{"conflict", `! git rebase -q other`, "a rebase is in progress in the checkout, on branch main", "git rebase --abort"},
		{"am", `git format-patch -q -1 --stdout other >.git/patch; ! git am -q .git/patch`, "git am is in progress in the checkout, on branch main", "git am --skip"},
		{"pick", `! git cherry-pick other`, "a cherry-pick is in progress in the checkout, on branch main", "git cherry-pick --abort"},
		{"linked", `git checkout -q other; git worktree add -q .git/linked main; cd .git/linked; GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git rebase -q -i HEAD`, "a rebase is in progress in " + project + "/.git/linked, on branch main", "git -C .git/linked rebase --continue; git worktree remove .git/linked; git checkout -q main"},
	} {
		d.ownerRuns(project, c.begin)
		before := d.ownerRuns(project, tip)
		r := merged(c.file)
		require.Equal(t, "left alone", r.Project, c.file)
		require.Contains(t, r.Note, c.reason)
		require.Equal(t, before, d.ownerRuns(project, tip), c.file)
		d.ownerRuns(project, c.end)
		require.NotContains(t, d.ownerRuns(project, "git status"), "in progress")

		r = merged("after-" + c.file)
		require.Equal(t, "updated", r.Project, r.Note)
		require.FileExists(t, filepath.Join(project, c.file))
		require.FileExists(t, filepath.Join(project, "after-"+c.file))
		require.Empty(t, d.ownerRuns(project, "git status --porcelain"))
	}
	d.must("agents", "remove", "alice")
}
