package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestLifecycleOnARealMachine does things at random to agents of a real daemon,
// and after each compares what it says, the kernel and git with what should be.
//
// Feature: multi-agent-workspaces, Property 1: Agent Creation Completeness
// Feature: multi-agent-workspaces, Property 2: Agent Name Uniqueness
// Feature: multi-agent-workspaces, Property 3: Agent Listing Completeness
// Feature: multi-agent-workspaces, Property 4: Agent Removal Cleanup
// Feature: multi-agent-workspaces, Property 5: Non-Existent Agent Error
// Feature: multi-agent-workspaces, Property 9: Port Mapping Uniqueness
// Feature: multi-agent-workspaces, Property 10: Port Range Validity
// Feature: multi-agent-workspaces, Property 14: Memory Limit Application
// Feature: multi-agent-workspaces, Property 24: Agent Auto-Start on Task
// Feature: multi-agent-workspaces, Property 25: Task Logging
// Feature: multi-agent-workspaces, Property 28: Process Reaping on Removal
func TestLifecycleOnARealMachine(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	type model struct {
		memory  int
		running bool
		up      bool
		tasks   []string
	}
	there := map[string]*model{}
	names := []string{"alice", "bob", "carol"}
	for step := range 40 {
		n := names[rnd.IntN(len(names))]
		m := there[n]
		op := []string{"add", "add", "remove", "remove", "stop", "run", "unknown"}[rnd.IntN(7)]
		what := fmt.Sprintf("step %d: %s %s", step, op, n)
		switch {
		case op == "unknown" || m == nil && op != "add":
			for _, verb := range [][]string{{"remove", "nosuch"}, {"run", "nosuch", "work"}, {"watch", "nosuch"}, {"pr", "nosuch"}} {
				if op != "unknown" {
					verb[1] = n
				}
				d.refused(api.CodeAgentNotFound, append([]string{"agents"}, verb...)...)
			}
			require.NotZero(t, d.ctl("agents", "shell", "nosuch").code)
		case op == "add" && m != nil:
			d.refused(api.CodeAgentExists, "agents", "add", n, "--base", "custom")
		case op == "add":
			mem := []int{0, 64, 100}[rnd.IntN(3)]
			flags := []string{"agents", "add", n, "--base", "custom", "--port", "3000"}
			if mem > 0 {
				flags = append(flags, "--memory", fmt.Sprint(mem))
			} else {
				mem = 512
			}
			d.must(append(flags, "--", "sh", "-c")...)
			there[n] = &model{memory: mem, up: true}
		case op == "stop":
			d.must("agents", "stop", n)
			m.up, m.running = false, false
		case op == "run" && m.running:
			d.refused(api.CodeBadState, "agents", "run", n, "true")
		case op == "run":
			task := fmt.Sprintf("setsid sleep 10%02d & exec sleep 20%02d", step, step)
			began := time.Now()
			d.must("agents", "run", n, task)
			m.up, m.running, m.tasks = true, true, append(m.tasks, task)
			var log struct{ Tasks []api.Task }
			require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "tasks", n)), &log), what)
			last := log.Tasks[len(log.Tasks)-1]
			require.Equal(t, task, last.Prompt, what)
			require.WithinRange(t, last.Time, began.Add(-time.Second), time.Now().Add(time.Second), what)
		case op == "remove" && m.running:
			d.refused(api.CodeBadState, "agents", "remove", n)
			d.must("agents", "remove", n, "--force")
			delete(there, n)
			d.goneFrom(n, m.tasks, what)
		default:
			d.must("agents", "remove", n)
			delete(there, n)
			d.goneFrom(n, m.tasks, what)
		}

		var list struct{ Agents []api.Agent }
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "list")), &list), what)
		require.Len(t, list.Agents, len(there), what)
		external := map[int]bool{}
		for _, a := range list.Agents {
			m := there[a.Name]
			require.NotNil(t, m, what)
			require.Equal(t, "agent/"+a.Name, a.Branch, what)
			want := api.StatusStopped
			if m.running {
				want = api.StatusRunning
			} else if m.up {
				want = api.StatusIdle
			}
			require.Equal(t, want, a.Status, what)
			require.Len(t, a.PortMappings, 1, what)
			port := a.PortMappings[0].External
			require.False(t, external[port], "%s: port %d twice", what, port)
			require.True(t, port >= 3000 && port <= 9999, what)
			external[port] = true
			require.DirExists(t, d.path("ws", ".polis", "worktrees", a.Name), what)
			require.NotEmpty(t, git(t, d.bare(), "rev-parse", "agent/"+a.Name), what)
			_, err := os.Stat(d.path("run", "netns", a.Name))
			require.Equal(t, m.up, err == nil, what)
			if m.up {
				require.Contains(t, d.memoryLimits(a), fmt.Sprint(m.memory<<20), what)
			}
		}
	}
}

// goneFrom requires that nothing of a removed agent remains, and no process.
func (d *daemon) goneFrom(agent string, tasks []string, what string) {
	d.t.Helper()
	d.nothingOf(agent, what)
	require.Empty(d.t, d.ports(agent), what)
	for _, l := range d.locks() {
		require.NotEqual(d.t, agent, l.Holder, what)
	}
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		line := strings.ReplaceAll(strings.TrimSuffix(readFile(f), "\x00"), "\x00", " ")
		for _, task := range tasks {
			words := strings.Fields(task) // setsid sleep A & exec sleep B
			require.False(d.t, slices.Contains([]string{"sleep " + words[2], "sleep " + words[6]}, line) && d.ours(f), "%s: %s is left: %s", what, f, line)
		}
	}
}

// ours reports whether a process is in one of this polisd's control groups: other
// tests may run the same program.
func (d *daemon) ours(cmdline string) bool {
	_, rest, _ := strings.Cut(readFile(d.path("polisd.log")), `msg="bridge added" op=net.shared link=plb`)
	id, _, _ := strings.Cut(rest, "\n")
	return id != "" && strings.Contains(readFile(filepath.Join(filepath.Dir(cmdline), "cgroup")), id)
}

// memoryLimits are what the kernel has for an agent's control group, in bytes.
func (d *daemon) memoryLimits(a api.Agent) []string {
	var out []string
	for _, f := range []string{"/sys/fs/cgroup/memory" + a.CgroupPath + "/memory.limit_in_bytes", "/sys/fs/cgroup" + a.CgroupPath + "/memory.max"} {
		if text := strings.TrimSpace(readFile(f)); text != "" {
			out = append(out, text)
		}
	}
	return out
}
