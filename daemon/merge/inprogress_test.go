package merge

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// While git has not ended what it began on the target branch, in the checkout or in a linked worktree, the branch
// stays where it is, the reason says what to end, and git can end it.
func TestABranchWithAnOperationInProgressIsLeftAlone(t *testing.T) {
	const conflict = `git checkout -qb other; echo theirs > file; git commit -qam theirs; git checkout -q main; echo ours > file; git commit -qam ours; `
	for name, c := range map[string]struct {
		begin, reason, end string
		moves              bool // another branch than the target is worked on
	}{
		"rebase":           {begin: conflict + "! git rebase -q other", reason: "a rebase is in progress in the checkout", end: "echo both > file; git add file; GIT_EDITOR=true git rebase --continue"},
		"rebase --apply":   {begin: conflict + "! git rebase -q --apply other", reason: "a rebase is in progress in the checkout", end: "echo both > file; git add file; git rebase --continue"},
		"rebase, stopped":  {begin: conflict + `git reset -q --hard HEAD; GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git rebase -q -i HEAD~1`, reason: "a rebase is in progress", end: "git rebase --continue"},
		"am":               {begin: conflict + "git format-patch -q -1 other; ! git am -q 0001*; git checkout -q -- . ; rm 0001*", reason: "git am is in progress", end: "git am --skip"},
		"cherry-pick":      {begin: conflict + "! git cherry-pick other", reason: "a cherry-pick is in progress", end: "echo both > file; git add file; git -c core.editor=true cherry-pick --continue"},
		"merge":            {begin: conflict + "! git merge -q other", reason: "a merge is in progress", end: "echo both > file; git add file; git commit -qm both"},
		"bisect":           {begin: "git commit -q --allow-empty -m 2; git commit -q --allow-empty -m 3; git bisect start; git bisect bad; git bisect good HEAD~2", reason: "a bisect is in progress", end: "git bisect reset"},
		"linked worktree":  {begin: conflict + "git checkout -q --detach; git worktree add -q linked main; cd linked; ! git rebase -q other", reason: "a rebase is in progress in ", end: "cd linked; echo both > file; git add file; GIT_EDITOR=true git rebase --continue"},
		"of another one":   {begin: conflict + "git checkout -q other; ! git rebase -q main", moves: true, end: "git rebase --abort"},
		"with update-refs": {begin: conflict + "git checkout -qb top; echo t > t; git add t; git commit -qm t; ! git rebase -q --update-refs other", reason: "a rebase is in progress", end: "git rebase --abort"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			require.NoError(t, exec.Command("chown", "-R", "65534:65534", f.project).Run())
			f.recordAgain(t)
			sh(t, f.project, c.begin)
			_, err := f.Workspace.Sync(t.Context())
			require.NoError(t, err)
			f.work(t, "alice", "new", "new\n")
			res, err := f.merge(t, "alice")
			require.NoError(t, err)
			before, tip := everything(t, f.project), as(t, nobody, f.project, "rev-parse", "main")
			a, err := f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			if c.moves {
				require.True(t, a.Updated, a.Reason)
				require.False(t, a.Files)
				require.Equal(t, res.Commit, as(t, nobody, f.project, "rev-parse", "main"))
				sh(t, f.project, c.end)
				return
			}
			require.False(t, a.Updated)
			require.Contains(t, a.Reason, c.reason)
			require.Contains(t, a.Reason, "branch main")
			require.Contains(t, a.Command, "git -C ")
			require.Equal(t, before, everything(t, f.project))
			require.Equal(t, tip, as(t, nobody, f.project, "rev-parse", "main"))
			project, note := a.State()
			require.Equal(t, "left alone", project)
			require.Contains(t, note, a.Reason)
			sh(t, f.project, c.end)
			require.NotContains(t, strings.ToLower(as(t, nobody, f.project, "status")), "in progress")
		})
	}
}
