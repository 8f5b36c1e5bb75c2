package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// streamers are base types whose programs print a stream, and their options for it.
var streamers = map[string]string{
	"claude":   "--output-format stream-json --verbose",
	"cline":    "--json",
	"codex":    "exec --sandbox danger-full-access --skip-git-repo-check --json",
	"copilot":  "--output-format json",
	"gemini":   "--output-format stream-json",
	"opencode": "--format json",
	"pi":       "--mode json",
	"qwen":     "--output-format stream-json",
}

// streaming are options with programs of these names. A program prints what the real one
// printed, with the options for its stream, else text. Its task is "do" or
// "denied", or a script for sh after "sh: ".
func streaming(t *testing.T, names ...string) options {
	t.Helper()
	o := standIns(t, names...)
	bin := filepath.Dir(strings.Split(o.box, `"`)[1]) + "/bin"
	dir := filepath.Dir(bin)
	files, err := filepath.Glob("../daemon/rules/steps/testdata/*.jsonl")
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(f)), []byte(readFile(f)), 0o644))
	}
	for _, n := range names {
		script := fmt.Sprintf(`#!/bin/sh
for last; do :; done
last=${last#--prompt=}; last=${last# }
case $last in "sh: "*) eval "${last#sh: }"; exit;; esac
case "$*" in *%q*) ;; *) echo "It is text: $*"; exit;; esac
echo "a warning" >&2
case $last in
do) git config user.name a; git config user.email a@b; echo hello >made-%s.txt; git add -A; git commit -qm work; cat %[3]s/%[2]s-ok.jsonl;;
denied) cat %[3]s/%[2]s-denied.jsonl;;
esac
`, streamers[n], n, dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "node_modules", n, "cli"), []byte(script), 0o755))
	}
	return o
}

func (d *daemon) taskRecord(id string) (t api.Task) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "tasks", "show", id)), &t))
	return t
}

// TestATaskIsFollowedStepByStep: if a program has machine-readable output, people see what is read,
// edited and run. The lines themselves are kept, too.
func TestATaskIsFollowedStepByStep(t *testing.T) {
	names := []string{"claude", "cline", "codex", "copilot", "gemini", "opencode", "pi", "qwen"}
	d := startDaemon(t, streaming(t, names...))
	d.up()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			d.add(name, "--base", name, "--memory", "256")
			r := d.ctl("run", "-f", name, "do")
			require.Zero(t, r.code, "%s", r)
			require.Regexp(t, `(?s)a warning\n.*\* command  echo hello > made.txt.*\nIt is done.\n.*`+name+`\.1 ended well in .*merged as [0-9a-f]{7}(; .*)?\n$`, strings.ReplaceAll(r.stdout, "\r", ""), "%s", r)
			require.NotContains(t, r.stdout, `{"type"`)

			got := d.taskRecord(name + ".1")
			require.NotEmpty(t, got.Stream)
			require.NotNil(t, got.Report, "%+v", got)
			require.Equal(t, "It is done.", got.Report.Answer)
			require.NotEmpty(t, got.Steps)
			require.Equal(t, got.StepCount, len(got.Steps))
			require.Equal(t, "It is done.", got.Steps[len(got.Steps)-1].Text)
			text := d.must("tasks", "show", name+".1")
			require.Regexp(t, `command  echo hello > made.txt.*  \(passed(, .*)?\)\n`, text)
			require.Contains(t, text, "\n  It is done.\n")

			sample := readFile("../daemon/rules/steps/testdata/" + name + "-ok.jsonl")
			for _, out := range []string{d.must("tasks", "show", name+".1", "--output", "--raw"), d.must("agents", "watch", name, "-n", "1000", "--raw")} {
				require.Equal(t, sample, strings.Replace(out, "a warning\n", "", 1))
			}
			require.Contains(t, d.must("tasks", "show", name+".1", "--output"), "* command  echo hello")
		})
	}
	// Its own command line is what the user wants to see.
	d.must("agents", "add", "own", "--base", "claude", "--memory", "256", "--", "claude", "--flag")
	require.Contains(t, d.ctl("run", "-f", "own", "look").stdout, "It is text: --flag")
	require.Empty(t, d.taskRecord("own.1").Stream)
	require.Contains(t, d.must("agents", "types", "codex"), "steps       codex, with --json")
}

// TestARefusalOfTheAgentsOwnRulesIsShown: a program whose own permission system refuses a call ends
// with success. Its task must show the refusal.
func TestARefusalOfTheAgentsOwnRulesIsShown(t *testing.T) {
	names := []string{"claude", "cline", "copilot", "gemini", "opencode"}
	d := startDaemon(t, streaming(t, names...))
	d.up()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			d.add(name, "--base", name, "--memory", "256")
			r := d.ctl("run", "-f", name, "denied")
			require.Zero(t, r.code, "%s", r)
			const result = "refused by its own rules: echo hello > made.txt"
			require.Contains(t, r.stdout, "* refused  by its own rules: echo hello > made.txt")
			require.Contains(t, r.stdout, "0 commits, "+result)
			got := d.taskRecord(name + ".1")
			require.Equal(t, api.OutcomeRefused, got.Outcome)
			require.True(t, strings.HasPrefix(got.Result, result), got.Result)
			require.Equal(t, 1, got.Report.OwnRefusals)
			require.Contains(t, d.must("tasks", "show", name+".1"), "own rules   refused 1 call: echo hello")
			for _, list := range [][]string{{"tasks"}, {"tasks", name}, {"agents", "list"}, {"--json", "agents", "list"}, {"events"}} {
				require.Contains(t, d.must(list...), "refused by its own rules", "%v", list)
			}
		})
	}
}

// TestStepsOfAProgramThatPrintsGarbage: people see text, whatever it prints.
func TestStepsOfAProgramThatPrintsGarbage(t *testing.T) {
	d := startDaemon(t, streaming(t, "claude"))
	d.up()
	d.add("claude", "--base", "claude", "--memory", "256")
	r := d.ctl("run", "-f", "claude", `sh: head -c 300000 /dev/urandom; echo; head -c 2000000 /dev/zero | tr '\0' x; echo; printf '{"type":"result","result":"\\u001b]52;c;eA==\\u0007fine","is_error":false}\n'; printf '\033[2J{"type":'; exit 3`)
	require.Equal(t, 3, r.code)
	require.Contains(t, r.stdout, "(a line of 1953 kB is not shown)\nfine\n{\"type\":\n")
	require.NotContains(t, d.must("agents", "watch", "claude", "-n", "5"), "\x1b")
	got := d.taskRecord("claude.1")
	require.Equal(t, "fine", got.Report.Answer)
	require.Equal(t, "failed (exit 3)", got.Result)

	// What is reported after the agent's own word that it is done is kept, too.
	d.must("run", "claude", `sh: polisctl done; sleep 1; printf '{"type":"result","result":"late","is_error":false}\n'`)
	d.eventually("the late report", func() bool { r := d.taskRecord("claude.2").Report; return r != nil && r.Answer == "late" })
	require.Equal(t, api.EndDone, d.taskRecord("claude.2").EndedBy)

	// What every program probes for is no refusal that the task met.
	d.add("own", "--", "sh", "-c", "{prompt}")
	d.must("run", "own", `python3 -c 'import ctypes; ctypes.CDLL(None).syscall(425, 1, 0)'; chroot /tmp true; while ! test -e /tmp/go; do sleep 0.05; done`)
	d.eventually("both are recorded", func() bool {
		all := d.must("agents", "why", "own", "--all")
		return strings.Contains(all, "io_uring_setup") && strings.Contains(all, "chroot")
	})
	d.sh("own", "touch /tmp/go")
	met := fmt.Sprint(d.settled("own").Refused)
	require.Contains(t, met, "chroot")
	require.NotContains(t, met, "io_uring_setup")

	// A refusal in text is found, too.
	d.must("run", "--wait", "own", `echo '! permission requested: bash (npm test); auto-rejecting' >&2`)
	got = d.taskRecord("own.2")
	require.Equal(t, "refused by its own rules: bash (npm test)", got.Result)
	require.Equal(t, api.OutcomeRefused, got.Outcome)
}

// TestWhatPolisSeesIsAmongTheSteps: a refusal, and a wait for another agent's lease.
func TestWhatPolisSeesIsAmongTheSteps(t *testing.T) {
	o := streaming(t, "claude")
	o.config = "[locks]\nwait = \"60s\"\n"
	d := startDaemon(t, o)
	d.up()
	d.add("bob")
	d.add("claude", "--base", "claude", "--memory", "256", "--read", "**", "--write", "docs/**")
	d.must("lock", "docs/guide.md", "--agent", "bob")
	f := d.follow("run", "-f", "claude", `sh: echo x >>main.txt; echo y >>docs/guide.md; echo continued`)
	d.eventually("it was refused, and waits", func() bool { // each is noticed by itself
		text := f.text()
		return strings.Contains(text, "* waiting  for the lease on docs/guide.md, held by bob") &&
			strings.Contains(text, "* refused  ") && strings.Contains(text, "of main.txt (")
	})
	got := d.taskRecord("claude.1")
	require.Equal(t, api.TaskRunning, got.State)
	require.True(t, slices.ContainsFunc(got.Steps, func(s api.Step) bool { return s.Kind == api.StepWaiting }), "of a task that runs: %v", got.Steps)
	d.must("unlock", "docs/guide.md", "--agent", "bob")
	d.eventually("it continues", func() bool {
		return strings.Contains(f.text(), "continued") && strings.Contains(f.text(), "ended well")
	})
	got = d.settled("claude")
	require.Positive(t, got.Use.WritesDenied)
	require.Positive(t, got.Use.WaitedMS)
}
