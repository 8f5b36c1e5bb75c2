package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestRulesOfALivingAgentCountAtOnce changes the rules of a program that has open files and has
// looked up names before.
func TestRulesOfALivingAgentCountAtOnce(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nread = [\"**\"]\nwrite = [\"docs/**\"]\n"})
	d.up()
	d.must("agents", "add", "alice", "--base", "custom", "--", "sh", "-c", `
		exec 3<secret/key.txt
		while ! test -e go; do sleep 0.05; done
		cat <&3 && echo "it was read"; echo told > said`)
	d.must("agents", "start", "--program", "alice")
	require.NotEmpty(t, d.sh("alice", "cat secret/key.txt; echo x >> main.txt"))

	if d.topMount("alice") == "overlay" {
		d.rulesAboveTheView("alice")
	} else {
		d.must("agents", "set", "alice", "--deny", "secret/**")
		r := d.exec("alice", "cat", "secret/key.txt")
		require.Contains(t, r.stderr, "Permission denied", "a name that was known, and pages that were read")
		d.sh("alice", "touch go")
		d.eventually("the program with the open file", func() bool { return d.exec("alice", "test", "-e", "said").code == 0 })
		require.NotContains(t, d.must("agents", "watch", "alice"), "it was read")
	}
	require.Contains(t, d.sh("alice", "cat /run/polis/policy"), "secret/**")

	d.must("agents", "set", "alice", "--hide", "docs/")
	require.Contains(t, d.exec("alice", "ls", "docs").stderr, "No such file")
	require.Contains(t, d.must("agents", "policy", "alice"), "secret/**", "rules are added")

	d.must("agents", "set", "alice", "--hide", "none", "--deny", "none")
	require.NotContains(t, d.must("agents", "policy", "alice"), "secret/**")
	require.NotEmpty(t, d.sh("alice", "ls docs; cat secret/key.txt"))

	var res api.SetResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("agents", "set", "alice", "--role", "docs", "--json")), &res))
	require.Equal(t, "docs", res.Agent.Role)
	require.Empty(t, res.Agent.Policy.Deny, "the role's rules, and no others")
	require.NotEmpty(t, d.sh("alice", "cat secret/key.txt"))
	require.Contains(t, d.exec("alice", "sh", "-c", "echo x >> main.txt").stderr, "ermission denied")

	require.Equal(t, api.CodeBadRequest, d.refused(api.CodeBadRequest, "agents", "set", "alice", "--deny", "[z-").Code)
	d.refused(api.CodeBadRequest, "agents", "set", "alice", "--role", "nobody")
	d.refused(api.CodeAgentNotFound, "agents", "set", "nobody", "--memory", "64")
}

// rulesAboveTheView denies an agent with the overlay above its view secret/. "Files of the base tree are
// hidden from the next start. What the agent has changed or made is withheld at once" (docs/view.md). No change waits for the next start.
func (d *daemon) rulesAboveTheView(agent string) {
	d.t.Helper()
	d.sh(agent, "mkdir -p secret/own; echo made > secret/own/made; echo changed > secret/also; cat secret/own/made")
	require.Contains(d.t, d.must("agents", "set", agent, "--deny", "secret/**"), "the base tree")
	for _, name := range []string{"secret/own/made", "secret/also"} {
		require.Contains(d.t, d.exec(agent, "cat", name).stderr, "Permission denied", name)
	}
	require.NotEmpty(d.t, d.sh(agent, "cat secret/key.txt"))
	base := d.sh(agent, "cat README.md; mkdir hidden; echo made > hidden/made; ls -R >/dev/null")
	d.sh(agent, "echo changed > README.md")
	d.must("agents", "set", agent, "--hide", "hidden/", "--hide", "README.md")
	require.Contains(d.t, d.exec(agent, "cat", "hidden/made").stderr, "No such file")
	require.NotContains(d.t, d.sh(agent, "ls"), "hidden")
	require.Equal(d.t, base, d.sh(agent, "cat README.md"), "the base tree has it still")
	require.NotZero(d.t, d.exec(agent, "sh", "-c", "echo x > README.md").code)
	for _, change := range []string{"echo x >> secret/key.txt", "echo x > secret/new", "rm -f secret/key.txt", "mv secret elsewhere"} {
		r := d.exec(agent, "sh", "-c", change)
		require.NotZero(d.t, r.code, change)
		require.Contains(d.t, r.stderr, "Permission denied", change)
	}
	d.must("agents", "stop", agent)
	d.must("agents", "start", "--program", agent)
	require.Equal(d.t, "fuse.polis", d.topMount(agent))
	require.Contains(d.t, d.exec(agent, "cat", "secret/key.txt").stderr, "Permission denied")
}

// TestLimitsOfALivingAgentCountAtOnce also through a crash of polisd, which
// must find the agent as it was set.
func TestLimitsOfALivingAgentCountAtOnce(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "256", "--pids", "200", "--cpu", "150")
	a, _ := d.agent("alice")
	require.Equal(t, []int{256, 200, 150}, []int{a.MemoryLimitMB, a.PidsLimit, a.CPUPercent})
	forks := func() string {
		r := d.exec("alice", "sh", "-c", "for i in $(seq 64); do sleep 600 >/dev/null 2>&1 & done")
		d.endSleeps("600")
		return r.stdout + r.stderr
	}
	require.NotContains(t, forks(), "ork")

	d.must("agents", "set", "alice", "--pids", "32", "--cpu", "20", "--memory", "128")
	require.Contains(t, forks(), "ork", "a fork must have failed")
	before, _ := d.agent("alice")
	require.Equal(t, 124, d.exec("alice", "timeout", "2", "sh", "-c", "while :; do :; done").code)
	after, _ := d.agent("alice")
	used := after.CPUMicros - before.CPUMicros
	require.Less(t, used, int64(1_000_000), "2 s at 20 % of a processor")
	require.Contains(t, d.exec("alice", "python3", "-c", "bytearray(180 << 20)").String(), "137", "killed at the new limit")

	require.Error(t, d.signal(syscall.SIGKILL), "killed")
	d.start()
	a, _ = d.agent("alice")
	require.Equal(t, []int{128, 32, 20}, []int{a.MemoryLimitMB, a.PidsLimit, a.CPUPercent})
	require.Contains(t, forks(), "ork", "the limits are those of before")
	d.must("agents", "set", "alice", "--pids", "default", "--cpu", "none")
	a, _ = d.agent("alice")
	require.Equal(t, []int{512, 0}, []int{a.PidsLimit, a.CPUPercent})
	require.NotContains(t, forks(), "ork")
	d.must("agents", "stop", "alice")
	d.must("agents", "set", "alice", "--pids", "32")
	d.must("agents", "start", "--program", "alice")
	require.Contains(t, forks(), "ork", "set while it was stopped")
}

// TestAMemoryLimitBelowUseIsRefused unless it is forced. Then processes that do not fit are killed,
// and the agent itself survives.
func TestAMemoryLimitBelowUseIsRefused(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.must("agents", "add", "alice", "--base", "custom", "--memory", "256", "--", "python3", "-c", "x = bytearray(120 << 20); print('full', flush=True); import time; time.sleep(600)")
	d.must("agents", "start", "--program", "alice")
	d.eventually("the memory is in use", func() bool { return strings.Contains(d.must("agents", "watch", "alice"), "full") })
	e := d.refused(api.CodeLimitBelowUse, "agents", "set", "alice", "--memory", "64")
	require.Greater(t, e.Details["used_bytes"], float64(120<<20))
	require.Contains(t, e.Hint, "--force")
	a, _ := d.agent("alice")
	require.Equal(t, 256, a.MemoryLimitMB, "nothing was changed")
	require.Equal(t, api.StatusRunning, a.Status)
	d.must("agents", "set", "alice", "--memory", "160") // above what is in use

	d.must("agents", "set", "alice", "--memory", "64", "--force")
	d.eventually("what did not fit is gone", func() bool { a, _ = d.agent("alice"); return a.Status != api.StatusRunning })
	require.Equal(t, 64, a.MemoryLimitMB)
	require.Equal(t, "ok\n", d.sh("alice", "echo ok"))
	require.NotZero(t, d.exec("alice", "python3", "-c", fmt.Sprintf("bytearray(%d << 20)", 100)).code)
}
