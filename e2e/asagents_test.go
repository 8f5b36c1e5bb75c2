package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// These tests repeat what real coding agents were observed to do.

// idle waits until no program of the agent runs.
func (d *daemon) idle(name string) {
	d.t.Helper()
	d.eventually(name+" is idle", func() bool { a, _ := d.agent(name); return a.Status == api.StatusIdle })
}

// Codex runs "bash -lc", which reads Debian's /etc/profile, which resets PATH.
func TestEveryShellFindsTheProgramsOfTheSandbox(t *testing.T) {
	o := standIns(t, "claude")
	d := startDaemon(t, o)
	d.up()
	d.add("alice")
	for _, shell := range [][]string{
		{"bash", "-lc"}, {"env", "-i", "bash", "-lc"}, {"bash", "-ic"}, {"env", "-i", "bash", "-ic"},
		{"sh", "-lc"}, {"env", "-i", "sh", "-lc"},
		{"zsh", "-c"}, {"zsh", "-lc"}, {"env", "-i", "/usr/bin/zsh", "-lc"}, {"env", "-i", "/usr/bin/zsh", "-c"},
		{"fish", "-c"}, {"fish", "-lc"}, {"env", "-i", "/usr/bin/fish", "-lc"},
	} {
		program := shell[len(shell)-2]
		if _, err := exec.LookPath(program); err != nil {
			needProgram(t, program[strings.LastIndex(program, "/")+1:])
		}
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			r := d.exec("alice", append(shell, "command -v claude && command -v polisctl && claude --version")...)
			require.Zero(t, r.code, r.String())
			require.Contains(t, r.stdout, "/run/polis/bin/polisctl")
			require.Contains(t, r.stdout, "arg=--version")
		})
	}
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x >> /etc/profile || mv /etc/profile /etc/p || rm -f /etc/profile").code, "it is not the agent's to change")
	require.Equal(t, "/first", strings.SplitN(d.exec("alice", "bash", "-c", `PATH=/first:$PATH bash -ic 'echo $PATH'`).stdout, ":", 2)[0],
		"what a program put first stays first")
}

// Gemini's shell tool disables git's configuration for every command.
func TestCommitsHaveAnIdentityWithoutGitConfiguration(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	by := func(before, command string) string {
		t.Helper()
		return strings.TrimSpace(d.sh("alice", before+"; "+command+" commit -q --allow-empty -m x; git log -1 --format='%an <%ae>, %cn <%ce>'"))
	}
	const bare = "GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null "
	who := by("true", "git")
	require.NotEmpty(t, who)
	require.Equal(t, who, by("true", bare+"git"))
	require.Equal(t, who, by("true", bare+"bash -lc 'exec git \"$@\"' git"))
	name, _, _ := strings.Cut(who, " <")
	require.True(t, strings.HasPrefix(by("true", "env -i /usr/bin/git"), name+" <"))
	// A setting takes precedence.
	require.Equal(t, "G <g@x>, G <g@x>", by("git config --global user.name G; git config --global user.email g@x", "git"))
	require.Equal(t, "L <l@x>, L <l@x>", by("git config user.name L; git config user.email l@x", bare+"git"))
	require.Equal(t, "E <e@x>, C <c@x>", by("true", "GIT_AUTHOR_NAME=E GIT_AUTHOR_EMAIL=e@x GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@x git"))
}

// A task may be a Markdown list, or any other text that begins with a dash.
func TestTasksAreNotTakenForOptions(t *testing.T) {
	names := []string{"claude", "codex", "gemini", "qwen", "copilot", "opencode"}
	d := startDaemon(t, standIns(t, names...))
	d.up()
	for _, name := range names {
		d.must("agents", "add", name, "--base", name, "--memory", "256")
		for _, prompt := range []string{"- one\n- two", "--version"} {
			d.must("agents", "run", name, "--", prompt)
			d.idle(name)
			words := called(d.must("agents", "watch", name, "-n", "500"))
			last := words[len(words)-1]
			first, _, _ := strings.Cut(prompt, "\n")
			if opt, ok := strings.CutPrefix(last, "--prompt="); ok {
				require.Equal(t, first, opt)
			} else {
				require.Equal(t, first, last)
				require.Equal(t, "--", words[len(words)-2])
			}
		}
	}
	require.Contains(t, d.must("agents", "types", "claude"), "-- \"{prompt}\"")
	require.Equal(t, "joined", d.types()["gemini"].PromptForm)

	// An unknown program gets the text in a form that is not an option.
	d.add("plain", "--", "/bin/echo")
	d.must("agents", "run", "plain", "--", "-n nothing")
	d.idle("plain")
	require.Contains(t, d.must("agents", "watch", "plain"), " -n nothing")
}

// An agent's own command line is used, for start and for tasks.
func TestACommandOfTheAgentsOwnIsWhatRuns(t *testing.T) {
	d := startDaemon(t, standIns(t, "claude"))
	d.up()
	out := d.must("agents", "add", "plan", "--base", "claude", "--memory", "256", "--", "claude", "--permission-mode", "plan")
	require.Contains(t, out, "start       claude --permission-mode plan\n")
	require.Contains(t, out, "run         claude --permission-mode plan -p -- \"{prompt}\"\n")
	d.must("agents", "run", "plan", "look", "around")
	d.idle("plan")
	require.Equal(t, []string{"--permission-mode", "plan", "-p", "--", "look around"}, called(d.must("agents", "watch", "plan", "-n", "500")))
	d.must("agents", "start", "--program", "plan")
	d.eventually("it was started", func() bool {
		return slices.Equal([]string{"--permission-mode", "plan"}, called(d.must("agents", "watch", "plan", "-n", "500")))
	})

	out = d.must("agents", "add", "echo", "--", "sh", "-c", "echo arg={prompt}")
	require.Contains(t, out, "its command is for tasks")
	d.must("agents", "stop", "echo")
	d.must("agents", "start", "--program", "echo")
	a, _ := d.agent("echo")
	require.Equal(t, api.StatusIdle, a.Status)
	d.must("agents", "run", "echo", "hello")
	d.idle("echo")
	require.Contains(t, d.must("agents", "watch", "echo"), "arg=hello")
}

// called returns the arguments of the last call of a stand-in.
func called(log string) (args []string) {
	for line := range strings.Lines(strings.ReplaceAll(log, "\r", "")) {
		if strings.HasPrefix(line, "called ") {
			args = nil
		}
		if w, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "arg="); ok {
			args = append(args, w)
		}
	}
	return args
}

// A changed base type applies from the next start, and to the next task, without a restart.
func TestAChangedBaseTypeCounts(t *testing.T) {
	d := startDaemon(t, options{})
	require.NoError(t, os.MkdirAll(d.path("agents.d"), 0o755))
	write := func(version string) {
		d.write("agents.d/mine.toml", "run = [\"sh\", \"-c\", \"echo $VERSION run-"+version+" >~/out; # {prompt}\"]\ninteractive = [\"sh\", \"-c\", \"echo $VERSION start-"+version+" >~/out\"]\n[env]\nVERSION = \""+version+"\"\n")
	}
	write("one")
	d.up()
	d.must("agents", "add", "alice", "--base", "mine")
	out := func() string { d.idle("alice"); return d.sh("alice", "cat ~/out") }
	d.must("agents", "run", "alice", "x")
	require.Equal(t, "one run-one\n", out())
	write("two")
	d.must("agents", "run", "alice", "x")
	require.Equal(t, "two run-two\n", out(), "for the next task")
	require.Equal(t, "two\n", d.sh("alice", "echo $VERSION"))
	write("three")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "--program", "alice")
	require.Equal(t, "three start-three\n", out(), "at the next start")
	d.write("agents.d/mine.toml", "run = 3\n")
	d.must("agents", "run", "alice", "x")
	require.Equal(t, "three run-three\n", out(), "a file that cannot be read changes nothing")
	require.Contains(t, d.log(), "base types not read")
}

// An agent that cannot reach its model cannot work, and not every program reports that.
func TestAnAgentThatCannotReachItsModelIsReported(t *testing.T) {
	d := startDaemon(t, standIns(t, "claude"))
	d.up()
	out := d.must("agents", "add", "cut", "--base", "claude", "--memory", "256", "--egress", "none", "--env", "ANTHROPIC_API_KEY=x")
	const hint = "polisctl agents set cut --egress +api.anthropic.com"
	require.Contains(t, out, "warning: agent cut reaches nothing")
	require.Contains(t, out, hint)
	a, _ := d.agent("cut")
	require.Len(t, a.Warnings, 1)
	// The hint works.
	out = d.must(strings.Fields(hint)[1:]...)
	require.NotContains(t, out, "warning")
	a, _ = d.agent("cut")
	require.Empty(t, a.Warnings)
	require.Contains(t, a.Egress, "api.anthropic.com")
	require.Contains(t, a.Egress, "console.anthropic.com")
	require.Contains(t, d.must("agents", "set", "cut", "--egress", "none"), hint)
	require.NotContains(t, d.must("agents", "add", "plain", "--egress", "none", "--", "true"), "warning", "it may need nothing")
}

// Every Node program tries io_uring at its start, and works without it.
func TestProbesOfEveryProgramAreShownOnRequest(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	const probe = "io_uring_setup"
	try := "python3 -c 'import ctypes; libc = ctypes.CDLL(None); [libc.syscall(425, 1, 0) for _ in range(3)]'; chroot /tmp true"
	d.exec("alice", "sh", "-c", try)
	shown := func(args ...string) string { return d.must(args...) + d.must(append([]string{"--json"}, args...)...) }
	d.eventually("the other refusal", func() bool { return strings.Contains(d.must("events"), "chroot") })
	require.Contains(t, shown("events", "--all"), probe)
	require.NotContains(t, shown("events"), probe)
	require.Contains(t, shown("agents", "why", "alice", "--all"), probe)
	require.NotContains(t, shown("agents", "why", "alice"), probe)
	require.Contains(t, shown("agents", "why", "alice"), "chroot")
	inside := d.sh("alice", "cat /run/polis/why /run/polis/why.json")
	require.Contains(t, inside, "chroot")
	require.NotContains(t, inside, probe)
}

// The kernel kills a test that needs too much memory, and its agent continues.
func TestAKilledChildLeavesTheTaskAtWork(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	const hog = `/usr/bin/python3 -c 'x = bytearray(300 << 20)'`
	d.add("alice", "--memory", "96", "--", "sh", "-c", ident+`{prompt}`)
	d.must("agents", "run", "alice", "--", hog+`; test $? = 137 && echo x >new.txt && git add -A && git commit -qm new`)
	d.idle("alice")
	a, _ := d.agent("alice")
	require.Empty(t, a.StatusReason)
	d.eventually("it was merged", func() bool { a, _ := d.agent("alice"); return a.MergeStatus == api.MergeMerged })
	require.Len(t, d.ooms(), 1)
	e := d.ooms()[0]
	require.Contains(t, e.Message, "the agent's own program continues")
	require.Equal(t, "python3", e.Data["comm"])
	require.Contains(t, d.must("agents", "list"), "!memory")
	// The hint does what it says.
	d.must(strings.Fields(fmt.Sprint(e.Data["hint"]))[1:]...)
	a, _ = d.agent("alice")
	require.Equal(t, 192, a.MemoryLimitMB)
	d.must("agents", "set", "alice", "--memory", "96")

	// If the agent's own program is killed, or passes on that its child was, the agent is in state
	// Error.
	for _, task := range []string{"exec " + hog, hog} {
		d.must("agents", "run", "alice", "--", task)
		d.eventually("it is in error", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusError })
		a, _ = d.agent("alice")
		require.Contains(t, a.StatusReason, "OOM_KILLED: python3 ")
		require.Equal(t, api.OutcomeKilled, a.Task.Outcome)
		d.must("agents", "start", "--program", "alice")
		d.idle("alice")
	}
	// A process that was killed before a task is not the reason for the task's end.
	d.must("agents", "run", "alice", "--", "kill -9 $$")
	d.idle("alice")
	a, _ = d.agent("alice")
	require.Contains(t, a.StatusReason, "exit code 137")
}

// At its memory limit a program may not be killed. It may wait for its own pages without end.
func TestAnAgentAtItsMemoryLimitForLongIsReported(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "128", "--", "/usr/bin/python3", "-c", `
import mmap, os
keep = bytearray(b"x") * (108 << 20)
f = open(os.path.expanduser("~/big"), "w+b")
f.truncate(64 << 20)
while True:
    f.seek(0)
    while f.read(1 << 20): pass
`)
	d.must("agents", "start", "--program", "alice")
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventMemoryPressure)) > 0 })
	e := d.eventsOf(api.EventMemoryPressure)[0]
	require.Contains(t, e.Message, "polisctl agents set alice --memory 256")
	if _, err := os.ReadFile("/proc/pressure/memory"); err == nil { // else the kernel does not measure it
		require.Positive(t, e.Data["stalled_ms"], "its waits for memory are measured")
	}
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusRunning, a.Status)
	d.must("agents", "set", "alice", "--memory", "256")
}
