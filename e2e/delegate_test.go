package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// workers returns the workers of all people and agents.
func (d *daemon) workers() []api.Worker {
	d.t.Helper()
	var out struct{ Workers []api.Worker }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "workers", "list")), &out))
	return out.Workers
}

// delegated makes a worker that runs a script.
func (d *daemon) delegated(branch, script string, flags ...string) api.Worker {
	d.t.Helper()
	var w api.Worker
	args := append(append([]string{"--json", "delegate", branch, script}, flags...), "--", "sh", "-ec")
	require.NoError(d.t, json.Unmarshal([]byte(d.must(args...)), &w))
	return w
}

// TestATaskIsDelegated as in seed 003: a worker is made on a branch, its question reaches a person,
// and its result is available, also after the agent was removed.
func TestATaskIsDelegated(t *testing.T) {
	// No patrol: it would remove workers that have ended (TestEphemeralAgentsAreRemovedAutomatically).
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"0s\"\n[roles.simple-fix.tools]\nauto_approve = [\"read\"]\n"})
	project := d.up()
	require.Equal(t, "no workers\n", d.must("workers", "list"))
	w := d.delegated("feat/test", ident+`polisctl ask --tool write_file --input '{"file_path":"hello.txt"}'; echo 'Hello World' > hello.txt; git add -A; git commit -qm hello; polisctl done "wrote hello.txt"`,
		"--role", "simple-fix", "--memory", "128")
	require.Equal(t, "feat-test", w.ID)
	require.Equal(t, "feat/test", w.Branch)
	a, _ := d.agent("feat-test")
	require.True(t, a.Ephemeral)
	require.True(t, a.Worker)
	require.Equal(t, 128, a.MemoryLimitMB)
	q := d.question("feat-test")
	require.Equal(t, "simple-fix", q.Role)
	waiting := d.workers()[0].Waiting
	require.Equal(t, q.ID, waiting.ID)
	require.Contains(t, d.must("workers", "list"), "waiting for approval")
	d.must("approvals", "approve", q.ID)

	r := d.ctl("workers", "wait", "feat-test")
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "worker feat-test on branch feat/test: merged as ")
	require.Contains(t, r.stdout, "wrote hello.txt")
	require.Contains(t, r.stdout, "hello.txt | 1 +")
	require.Equal(t, "Hello World\n", readFile(project+"/hello.txt"))
	require.Equal(t, "worker feat-test was removed\n", d.must("workers", "cleanup"))
	require.Equal(t, "no worker has ended\n", d.must("workers", "cleanup"))
	_, there := d.agent("feat-test")
	require.False(t, there)
	require.Contains(t, d.must("workers", "list"), "removed")
	var kept api.Worker
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "workers", "result", "feat-test")), &kept))
	require.True(t, kept.OK && kept.Removed)
	require.Equal(t, api.OutcomeMerged, kept.Task.Outcome)
	require.Contains(t, d.must("events"), "agent feat-test was made for a task on branch feat/test")

	// A worker that fails has its exit status in the result, and one with uncommitted files is kept
	// until they are saved.
	r = d.ctl("delegate", "feat/test-2", "echo left > left.txt; exit 3", "--wait", "--", "sh", "-ec")
	require.Equal(t, 3, r.code, "%s", r)
	require.Contains(t, r.stdout, "failed (exit 3)")
	require.Contains(t, d.must("workers", "cleanup"), "worker feat-test-2 is kept: worker feat-test-2 has 1 changed file in no commit")
	require.Contains(t, d.must("workers", "cleanup", "--force"), "worker feat-test-2 was removed")

	// Several can be waited for together, and one is cancelled.
	d.delegated("fix/a", "true")
	d.delegated("fix/b", "while :; do sleep 0.1; done")
	require.Contains(t, d.must("workers", "cancel", "fix-b"), "cancelled")
	r = d.ctl("workers", "wait", "--all")
	require.Contains(t, []int{0, 1}, r.code, "%s", r)
	d.refused(api.CodeBadState, "workers", "cancel", "fix-b")
	d.refused(api.CodeAgentNotFound, "workers", "result", "nobody")
	require.Equal(t, 1, d.ctl("workers", "wait", "fix-a", "fix-b").code, "one was cancelled")
	require.Zero(t, d.ctl("workers", "wait", "fix-a").code)

	// They exist after a restart, and their names are not reused.
	d.stop()
	d.start()
	require.Len(t, d.workers(), 4)
	d.must("workers", "cleanup")
	require.Equal(t, "fix-a-2", d.delegated("fix/a", "true").ID)
}

// TestAnAgentDelegatesToWorkersOfItsOwn: from its sandbox, within its own rules and limits.
func TestAnAgentDelegatesToWorkersOfItsOwn(t *testing.T) {
	d := startDaemon(t, options{config: `max_agents = 20
[patrol]
interval = "0s"
[delegate]
workers = 3
depth = 2
[roles.worker]
read = ["**"]
write = ["src/**", "main.txt"]
deny = ["src/secret/**"]
[git]
remote = "push"
[agents.prod]
env = { TOKEN = "secret" }
`})
	project := d.up()
	d.worker("alice", "--role", "worker", "--memory", "256", "--env", "KEY=alices", "--egress", "none")
	d.worker("bob")
	inside := func(agent, args string) result { return d.exec(agent, "sh", "-c", "polisctl "+args) }
	refused := func(code api.Code, agent, args string) {
		t.Helper()
		r := inside(agent, "--json "+args)
		require.NotZero(t, r.code, "%s: %s", args, r)
		require.Contains(t, r.stderr, string(code), args)
	}

	// The worker does a part, and the agent merges its branch.
	commit := func(file string) string {
		return ident + "mkdir -p src; echo $KEY > " + file + "; git add -A; git commit -qm part; polisctl done part is done"
	}
	r := d.exec("alice", "sh", "-ec", fmt.Sprintf("polisctl delegate feat/part '%s' --write 'src/part/**' --memory 128 --wait", "mkdir -p src/part; "+commit("src/part/a.txt")))
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "worker feat-part on branch feat/part: 1 commit, not merged")
	require.Contains(t, r.stdout, "part is done")
	require.Contains(t, r.stdout, "src/part/a.txt | 1 +")
	a, _ := d.agent("feat-part")
	require.Equal(t, "alice", a.Parent)
	require.Equal(t, 128, a.MemoryLimitMB)
	require.Equal(t, []string{"src/part/**"}, a.Policy.Write)
	require.Equal(t, []string{"src/secret/**"}, a.Policy.Deny)
	require.Equal(t, []string{"none"}, a.Egress)
	require.Equal(t, "alices\n", d.sh("alice", ident+"git merge -q feat/part && cat src/part/a.txt"))
	require.Contains(t, d.exec("feat-part", "sh", "-c", "echo x > main.txt").stderr, "Permission denied")

	// It can narrow its rules and limits, and never widen them.
	for args, code := range map[string]api.Code{
		"delegate w/1 x --write 'docs/**'":    api.CodeForbidden,
		"delegate w/2 x --memory 512":         api.CodeForbidden,
		"delegate w/3 x --egress example.org": api.CodeForbidden,
		"delegate w/4 x --host-port 5432":     api.CodeForbidden,
		"delegate w/5 x --pids 100000":        api.CodeForbidden,
		"delegate w/6 x --role other":         api.CodeForbidden,
		"delegate w/7 x --base claude":        api.CodeForbidden,
		"delegate w/8 x --force":              api.CodeForbidden,
		"delegate w/9 x --deny '!src/secret'": api.CodeBadRequest,
		"delegate agent/bob x":                api.CodeRefConflict,
		"delegate main x":                     api.CodeRefConflict,
		"delegate ../x x":                     api.CodeInvalidName,
	} {
		refused(code, "alice", args)
	}
	require.Len(t, d.workers(), 1, "what was refused made nothing")

	// A worker can delegate, too, within its own rules and the depth. Only the parent can list its
	// workers.
	require.Equal(t, "feat-part\n", inside("alice", "-q workers list").stdout)
	require.Equal(t, "", inside("bob", "-q workers list").stdout)
	refused(api.CodeAgentNotFound, "bob", "workers result feat-part")
	refused(api.CodeAgentNotFound, "bob", "workers cancel feat-part")
	refused(api.CodeForbidden, "feat-part", "delegate deep/1 x --write 'src/**/b'")
	r = inside("feat-part", "delegate deep/1 'sleep 0.1; polisctl delegate deeper/1 true; touch src/part/b' --write 'src/**' --wait")
	require.NotZero(t, r.code, "a worker of a worker of a worker")
	b, _ := d.agent("deep-1")
	require.Equal(t, []string{"src/part/**"}, b.Policy.Write)
	require.Equal(t, 32, b.MemoryLimitMB, "an equal share for it, for two more and for the worker itself")
	require.NotContains(t, inside("alice", "-q workers list").stdout, "deep-1", "it is the worker's")

	// The limit applies to the agent and its workers together. A worker cannot get a name that has
	// a table in the configuration.
	require.Zero(t, inside("alice", "delegate prod 'env > $HOME/env'").code)
	_, there := d.agent("prod")
	require.False(t, there, "an agent cannot choose a name that has a table in polisd.toml")
	require.Equal(t, 0, d.ctl("workers", "wait", "prod-2").code)
	require.NotContains(t, readFile(d.home("prod-2", "env")), "secret")
	refused(api.CodeQuota, "alice", "delegate more/1 x")
	refused(api.CodeQuota, "feat-part", "delegate more/1 x")
	out := inside("alice", "workers cleanup")
	require.Contains(t, out.stdout, "worker feat-part was removed", "%s", out)
	require.Contains(t, inside("alice", "workers result feat-part").stdout, "was removed; its branch stays")
	require.Zero(t, inside("alice", "delegate more/1 true --wait").code)

	// Workers reach no remote, and a message does not name other agents.
	r = d.exec("more-1", "git", "push", "origin", "HEAD")
	require.NotZero(t, r.code)
	require.Contains(t, d.sh("bob", `curl -sS --unix-socket /run/polis/api.sock -d '{"op":"list","agent":"alice"}' http://polis/v1/workers`), "unknown field")
	require.Contains(t, d.sh("bob", `curl -sS --unix-socket /run/polis/api.sock -d '{"op":"steal"}' http://polis/v1/workers`), "must be delegate")

	// A later agent with the parent's name has none of its workers.
	d.must("agents", "remove", "alice", "--force")
	d.worker("alice", "--role", "worker")
	require.Equal(t, "", inside("alice", "-q workers list").stdout)
	require.True(t, strings.Contains(d.must("workers", "list"), "more-1"), "people see them")
	require.NotContains(t, readFile(project+"/src/part/a.txt"), "alices", "its branch was not merged into the target by itself")
}

// TestWorkersHaveNoMoreThanTheirParentHasNow: an agent and its workers together have the agent's
// limits, and what is taken from the agent is taken from its workers, at once.
func TestWorkersHaveNoMoreThanTheirParentHasNow(t *testing.T) {
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"0s\"\n[delegate]\nworkers = 3\n[roles.worker]\nread = [\"**\"]\nwrite = [\"src/**\", \"main.txt\"]\n"})
	d.up()
	d.worker("alice", "--role", "worker", "--memory", "400", "--pids", "200", "--egress", "*.example.org")
	inside := func(agent, args string) result { return d.exec(agent, "sh", "-c", "polisctl "+args) }
	// own is what the kernel has for the agent's sandbox.
	own := func(agent string) (mb, pids int) {
		a, _ := d.agent(agent)
		read := func(files ...string) int {
			for _, f := range files {
				if n, err := strconv.Atoi(strings.TrimSpace(readFile(f))); err == nil {
					return n
				}
			}
			return 0
		}
		const top = "/sys/fs/cgroup"
		return read(top+"/memory"+a.CgroupPath+"/memory.limit_in_bytes", top+a.CgroupPath+"/memory.max") >> 20,
			read(top+"/pids"+a.CgroupPath+"/pids.max", top+a.CgroupPath+"/pids.max")
	}
	r := inside("alice", "delegate one/w 'mkdir -p src; while :; do sleep 0.1; done' --memory 200 --egress a.example.org")
	require.Zero(t, r.code, "%s", r)
	mb, pids := own("alice")
	require.Equal(t, []int{200, 150}, []int{mb, pids}, "the rest is the worker's")
	mb, pids = own("one-w")
	require.Equal(t, []int{200, 50}, []int{mb, pids}, "a share is a fourth")

	// Nothing beyond the rest is given, to the agent or to an administrator.
	r = inside("alice", "--json delegate two/w true --memory 190")
	require.Contains(t, r.stderr, string(api.CodeForbidden), "%s", r)
	e := d.refused(api.CodeQuota, "agents", "set", "one-w", "--memory", "390")
	require.Regexp(t, pattern("polisctl workers cleanup returns what ended workers had; ask for less, or polisctl agents set %s gives the agent more"), e.Hint)
	d.must("agents", "set", "one-w", "--memory", "210") // less
	d.must("agents", "set", "alice", "--memory", "600") // more
	d.must("agents", "set", "one-w", "--memory", "390")

	// What the parent loses, its worker loses.
	d.sh("one-w", "mkdir -p src && echo x > src/a")
	d.must("agents", "set", "alice", "--memory", "160", "--pids", "60", "--deny", "src/secret/**", "--egress", "none", "--cpu", "50")
	mb, pids = own("alice")
	w, _ := d.agent("one-w")
	require.LessOrEqual(t, mb+w.MemoryLimitMB, 160)
	require.LessOrEqual(t, pids+w.PidsLimit, 60)
	require.Equal(t, []string{"none"}, w.Egress)
	require.Equal(t, 50, w.CPUPercent)
	require.Contains(t, w.Policy.Deny, "src/secret/**")
	require.NotZero(t, d.exec("one-w", "sh", "-c", "mkdir -p src/secret; echo x > src/secret/b").code)
	require.Zero(t, d.exec("one-w", "sh", "-c", "echo y > src/a").code, "the rest stays")
	wmb, _ := own("one-w")
	require.Equal(t, w.MemoryLimitMB, wmb)
	e = d.refused(api.CodeBadRequest, "agents", "set", "alice", "--memory", "20")
	require.Regexp(t, pattern("polisctl workers cancel and polisctl workers cleanup end workers; or choose a higher limit"), e.Hint)

	// A restart keeps it, and the worker's removal gives it back.
	d.stop()
	d.start()
	mb, _ = own("alice")
	require.LessOrEqual(t, mb+w.MemoryLimitMB, 160)
	d.ctl("workers", "wait", "one-w") // its task ended with the stop
	d.must("workers", "cleanup", "--force")
	d.eventually("the agent has all again", func() bool { mb, pids := own("alice"); return mb == 160 && pids == 60 })
	d.must("agents", "stop", "alice")
	d.must("agents", "set", "alice", "--memory", "20")
}
