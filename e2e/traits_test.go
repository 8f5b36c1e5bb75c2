package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Aider and Kiro were not run from their registries: small programs of their names get the command
// lines that their documentation has.
func TestAiderAndKiroGetTheirCommandLines(t *testing.T) {
	d := startDaemon(t, standIns(t, "aider", "kiro-cli"))
	d.up()
	for name, c := range map[string]struct{ run, model, start []string }{
		"aider": {[]string{"--yes-always", "--no-check-update", "--message=- one"}, []string{"--yes-always", "--no-check-update", "--model", "m1", "--message=- one"}, []string{"--no-check-update"}},
		"kiro":  {[]string{"chat", "--no-interactive", "--trust-all-tools", "--", "- one"}, nil, []string{"chat"}},
	} {
		t.Run(name, func(t *testing.T) {
			typ := d.types()[name]
			require.True(t, typ.Available, typ.Reason)
			d.must("agents", "add", name, "--base", name)
			a, _ := d.agent(name)
			require.Equal(t, typ.MemoryMB, a.MemoryLimitMB, "what the type needs")
			given := func() []string { return called(d.must("agents", "watch", name, "-n", "500")) }
			d.must("run", "--wait", name, "--", "- one")
			require.Equal(t, c.run, given(), "a list is no option")
			require.Contains(t, d.must("agents", "watch", name, "-n", "500"), "the end", "its input ends")
			if c.model != nil {
				d.must("run", "--wait", "--model", "m1", name, "--", "- one")
				require.ElementsMatch(t, c.model, given())
			} else {
				d.refused(api.CodeBadRequest, "run", "--wait", "--model", "m1", name, "--", "- one")
			}
			d.must("agents", "start", "--program", name)
			d.eventually("it was started", func() bool { return strings.Join(given(), " ") == strings.Join(c.start, " ") })
			d.must("agents", "remove", name, "--force")
		})
	}
}

// Node sizes its heap by the memory that its control group allows: an agent's own limit, not the
// machine's memory.
func TestTheHeapOfNodeFollowsTheMemoryLimit(t *testing.T) {
	needProgram(t, "node")
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "300")
	heap := func() int {
		mb, err := strconv.Atoi(strings.TrimSpace(d.sh("alice", "node -p 'v8.getHeapStatistics().heap_size_limit >> 20'")))
		require.NoError(t, err)
		return mb
	}
	small := heap()
	require.Less(t, small, 300, "it must end by itself before the kernel kills it")
	d.must("agents", "set", "alice", "--memory", "1200")
	large := heap()
	require.Greater(t, large, small+100)
	require.Less(t, large, 1200)
}

// A program without a terminal has nobody to ask whether it may read outside of its project. It
// refuses itself, continues, and ends with 0: that is shown, and the work is merged.
func TestAReadOutsideOfTheProjectIsRefusedHeadless(t *testing.T) {
	o := streaming(t, "opencode")
	bin := strings.Split(o.box, `"`)[1]
	outside := filepath.Join(filepath.Dir(bin), "outside.jsonl")
	require.NoError(t, os.WriteFile(outside, []byte(`{"type":"step_start","part":{"id":"p1","type":"step-start"}}
{"type":"tool_use","part":{"type":"tool","tool":"read","callID":"c1","state":{"status":"error","input":{"filePath":"/etc/machine-id"},"error":"The user rejected permission to use this specific tool call."},"id":"p2"}}
`), 0o644))
	d := startDaemon(t, o)
	d.up()
	d.must("agents", "add", "opencode", "--base", "opencode", "--memory", "256")
	d.must("run", "--wait", "opencode", "sh: cat "+outside+"; "+ident+"echo x >new.txt; git add -A; git commit -qm work")
	task := d.taskRecord("opencode.1")
	require.NotNil(t, task.Report)
	require.Equal(t, 1, task.Report.OwnRefusals)
	require.Equal(t, []string{"read /etc/machine-id"}, task.Report.OwnRefused)
	require.Contains(t, d.must("tasks", "show", "opencode.1"), "by its own rules: read /etc/machine-id")
	require.Equal(t, 1, task.Commits)

	// What the sandbox itself does not show is not there, and the task continues as well.
	secret := d.path("secret")
	require.NoError(t, os.WriteFile(secret, []byte("x"), 0o644))
	d.must("run", "--wait", "opencode", "sh: cat "+secret+" && exit 3; cat ../../../../../"+secret+" && exit 4; exit 0")
	require.Equal(t, 0, *d.taskRecord("opencode.2").ExitCode)
}
