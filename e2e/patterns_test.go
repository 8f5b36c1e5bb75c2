package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestRulesMeanWhatTheySpell: directories whose names have characters of patterns.
func TestRulesMeanWhatTheySpell(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	require.NoError(t, exec.Command("chown", "-R", "0:0", repo).Run())
	for _, f := range []string{"secret[1]/key", "app/[id]/page.tsx", "!keys/k"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(repo+"/"+f), 0o755))
		require.NoError(t, os.WriteFile(repo+"/"+f, []byte("x\n"), 0o644))
	}
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "names")
	d.giveAway(repo)
	refused := func(escaped string, args ...string) {
		t.Helper()
		r := d.ctl(append([]string{"--json"}, args...)...)
		require.NotZero(t, r.code, "%v: %s", args, r)
		var e struct{ Error api.Error }
		decode(t, r.stderr, &e)
		require.Equal(t, api.CodeBadRequest, e.Error.Code, r)
		require.Equal(t, escaped, e.Error.Details["escaped"], r)
		require.Contains(t, d.ctl(args...).stderr, "'"+escaped+"'", "a person can copy it")
	}
	refused(`secret\[1\]/`, "agents", "add", "alice", "--base", "custom", "--deny", "secret[1]/")
	refused(`app/\[id\]/**`, "agents", "add", "alice", "--base", "custom", "--write", "app/[id]/**")
	refused(`\!keys/`, "agents", "add", "alice", "--base", "custom", "--hide", "!keys/")
	d.add("alice", "--deny", `secret\[1\]/`, "--write", `app/\[id\]/**`, "--read", "**", "--hide", `\!keys/`)
	refused(`app/\[id\]/**`, "agents", "set", "alice", "--deny", "app/[id]/**")
	d.sh("alice", "echo y > 'app/[id]/page.tsx'; ! cat 'secret[1]/key'; ! ls -d '!keys'; ! echo y > README.md")
	refused(`app/\[id\]/**`, "delegate", "feat/one", "true", "--base", "custom", "--write", "app/[id]/**")
	r := d.exec("alice", "polisctl", "delegate", "feat/one", "true", "--hide", "!keys/")
	require.NotZero(t, r.code, r)
	require.Contains(t, r.stderr, `'\!keys/'`)
}
