//go:build agents

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestRealACP drives real programs by the Agent Client Protocol: what they ask by it reaches a person,
// and so does a path that their command opens.
func TestRealACP(t *testing.T) {
	install := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, install, "make e2e-agents installs them")
	for name, c := range map[string]struct{ command, setup string }{
		"gemini":   {command: `"gemini", "--experimental-acp"`},
		"opencode": {command: `"opencode", "acp"`, setup: `sed -i '1s/{/{"permission": {"bash": "ask"}, /' ~/.config/opencode/opencode.json`},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReal(t, install, name, "[roles.worker.tools]\nauto_approve = [\"read\"]\n")
			require.NoError(t, os.MkdirAll(r.path("agents.d"), 0o755))
			r.write("agents.d/speaks.toml", fmt.Sprintf("description = \"an ACP agent\"\nprogram = %q\nacp = [%s]\nmemory_mb = 1280\n[permissions]\nkind = \"acp\"\ncommand = [%s]\n", name, c.command, c.command))
			args := []string{"--base", "speaks", "--role", "worker"}
			for _, e := range r.realAgent.env {
				args = append(args, "--env", r.fill(e))
			}
			r.add("speaker", args...)
			r.sh("speaker", ident+r.fill(r.setup)+"\n"+c.setup)
			commands := []string{"echo acp > acp.txt", "cp README.md deploy.txt", "git add acp.txt && git commit -qm acp"}
			var steps []step
			for _, c := range commands {
				steps = append(steps, shellStep(c))
			}
			r.model.play(steps...)
			r.must("run", "--detach", "speaker", "--", "work")
			// Every question is approved, until the task is over: a program's watcher of files may read the path, too.
			var got api.Task
			seen := map[string]bool{}
			require.Eventually(t, func() bool {
				for _, q := range r.questions() {
					for _, what := range []string{"acp.txt", "deploy.txt", "git commit"} {
						seen[string(q.Kind)+" "+what] = seen[string(q.Kind)+" "+what] || strings.Contains(q.What, what)
					}
					r.ctl("approvals", "approve", q.ID) // it may be withdrawn
				}
				got = r.tasks("speaker")[0]
				return got.Final
			}, 4*patience, 50*time.Millisecond)
			for _, want := range []string{"tool acp.txt", "tool deploy.txt", "write deploy.txt", "tool git commit"} {
				require.True(t, seen[want], "%s: %v\n%s", want, seen, r.model.log())
			}
			_, results := r.model.played()
			require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v\n%s\n%s%s", got, strings.Join(results, "\n---\n"), r.model.log(), r.must("agents", "watch", "-n", "200", "speaker"))
			files := git(t, r.project, "ls-files")
			require.Contains(t, files, "acp.txt")
			require.NotContains(t, strings.Join(results, "\n"), "denied", "the command of the path continued")
		})
	}
}
