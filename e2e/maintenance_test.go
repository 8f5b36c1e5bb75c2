package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// polisd.toml sets the author of commits, and a merge names the agent.
func TestIdentityOfCommits(t *testing.T) {
	d := startDaemon(t, options{config: `
[git]
identity = { name = "Robot {agent}", email = "{agent}@robots.example" }
[git.agents.bob]
identity = { name = "Bob" }
[git.agents.carol]
identity = { email = "c@example.org" }
`})
	d.up()
	for _, name := range []string{"alice", "bob"} {
		d.add(name)
		// An agent's own configuration does not change it; other repositories are left alone.
		d.sh(name, "git config user.name Else; git config --global user.email else@example.org; echo x > "+name+".txt; git add -A; git commit -qm x; "+
			"git init -q /tmp/other; cd /tmp/other; git config user.name Test; git commit -q --allow-empty -m y; git log -1 --format='%an %ae' > /tmp/seen")
		require.Equal(t, "Test else@example.org\n", d.sh(name, "cat /tmp/seen"))
	}
	bare := d.path("ws", ".polis", "bare-repo.git")
	require.Equal(t, "Robot alice <alice@robots.example> Robot alice\n", git(t, bare, "log", "-1", "--format=%an <%ae> %cn", "agent/alice"))
	require.Equal(t, "Bob <bob@robots.example> Bob\n", git(t, bare, "log", "-1", "--format=%an <%ae> %cn", "agent/bob"))
	d.must("merge", "alice")
	require.Equal(t, "alice\n", git(t, bare, "log", "-1", "--format=%(trailers:key=Polis-Agent,valueonly,separator=)", "main"))
	d.must("merge", "bob", "--message", "Bring it in\n\nReviewed-by: R <r@example.org>")
	require.Equal(t, "Bring it in\n\nReviewed-by: R <r@example.org>\nPolis-Agent: bob\n", strings.TrimSpace(git(t, bare, "log", "-1", "--format=%B", "main"))+"\n")
}

// Agents commit and read the history while the repository is packed, and none of their git commands
// fails.
func TestMaintenanceWhileAgentsCommit(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	const agents, commits, rounds = 3, 12, 4
	for i := range agents {
		d.add(fmt.Sprintf("agent%d", i))
		d.sh(fmt.Sprintf("agent%d", i), ident+fmt.Sprintf("echo stash > stash%d.txt; git add -A; git stash -q", i))
	}
	var wg sync.WaitGroup
	results := make([]result, agents)
	for i := range agents {
		wg.Go(func() {
			name := fmt.Sprintf("agent%d", i)
			results[i] = d.exec(name, "sh", "-ec", fmt.Sprintf("for n in $(seq %d); do echo $n >> %s.txt; git add -A; git commit -q -m $n; git log --stat >/dev/null; git status --porcelain; git branch b-%s-$n; git tag t-%s-$n; done", commits, name, name, name))
		})
	}
	for range rounds {
		var rep api.MaintenanceReport
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "maintenance", "--now")), &rep))
		require.Empty(t, rep.Error)
		require.Zero(t, rep.Removed)
	}
	wg.Wait()
	for i, r := range results {
		require.Zero(t, r.code, "agent%d: %s", i, r)
	}
	d.must("maintenance", "--now")
	bare := d.path("ws", ".polis", "bare-repo.git")
	for i := range agents {
		name := fmt.Sprintf("agent%d", i)
		require.Equal(t, fmt.Sprint(commits), strings.TrimSpace(git(t, bare, "rev-list", "--count", "main..agent/"+name)))
		d.sh(name, "git log --oneline >/dev/null; git fsck --no-dangling; git stash pop -q; grep -q stash stash*.txt; git branch -d b-"+name+"-1; git commit -qm after")
	}
	git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
	var all struct{ Maintenance []api.MaintenanceReport }
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "maintenance")), &all))
	require.Len(t, all.Maintenance, 1)
	require.False(t, all.Maintenance[0].Next.IsZero())
	require.Contains(t, d.must("events"), "maintenance of workspace")
	require.Empty(t, d.locks()["repo:exclusive"])
	d.must("maintenance", "--dry-run")
}
