//go:build agents

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	programhook "polis/daemon/rules/hook"
)

// weekPatrol are times that are long enough for these programs to start, and short enough for a test.
const weekPatrol = "[patrol]\ninterval = \"0s\"\nstalled_after = \"12s\"\nmodel_after = \"40s\"\nspinning_after = \"10m\"\n"

// weekCheck is a check that says what the program has to remove.
const weekCheck = "test ! -e bad.txt || { echo 'WALNUT: bad.txt has to go'; exit 1; }"

// scene is a part of a week with a program. It returns what was observed, in a few words, for the table.
type scene struct {
	title string
	run   func(r *realRun) string
}

var week = []scene{
	{"a call that a rule denies", (*realRun).deniedByRule},
	{"a question in the foreground", (*realRun).askedInTheForeground},
	{"a text at work", (*realRun).spokenTo},
	{"a failed check is repaired", (*realRun).repairsItsCheck},
	{"a long computation", (*realRun).computes},
	{"a hung tool", (*realRun).hangsInATool},
	{"a slow model", (*realRun).awaitsItsModel},
	{"a hung model", (*realRun).hasNoAnswer},
	{"a restart in a task", (*realRun).isRestarted},
	{"silence at its prompt", (*realRun).waitsAtItsPrompt},
}

// TestRealWeek has each program go through what happens in a week: what a person sees of it, and what reaches its model.
func TestRealWeek(t *testing.T) {
	install := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, install, "make e2e-agents installs them")
	names := slices.Sorted(maps.Keys(realAgents))
	seen := make([][]string, len(names))
	t.Run("programs", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // mostly they wait
				r := startWeek(t, install, name)
				for _, s := range week {
					begin := time.Now()
					seen[i] = append(seen[i], s.run(r))
					t.Logf("%s: %s (%s)", s.title, seen[i][len(seen[i])-1], time.Since(begin).Round(time.Second))
				}
			})
		}
	})
	if t.Failed() || slices.ContainsFunc(seen, func(s []string) bool { return len(s) != len(week) }) {
		return // of a part of the programs there is no table
	}
	text := aboutWeek(names, seen)
	t.Log("\n" + text)
	if file := os.Getenv("POLIS_AGENTS_DOC"); file != "" {
		require.NoError(t, writeSection(file, weekHeading, text))
	}
}

// startWeek starts polis with a program that reaches its model by the gateway only.
func startWeek(t *testing.T, install, name string) *realRun {
	r := &realRun{realAgent: realAgents[name], name: name, install: install}
	r.model, r.port = startModel(t)
	t.Cleanup(r.model.release)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(gatewayKey+"\n"), 0o600))
	how := gatewayAgents[name]
	r.daemon = startDaemon(t, options{
		config: fmt.Sprintf("[network]\negress = \"none\"\n[models.main]\nkind = %q\nurl = \"http://127.0.0.1:%d\"\nkey_file = %q\n", how.kind, r.port, key) +
			weekPatrol + fmt.Sprintf("[merge]\ncheck = %q\n[tasks]\non_restart = \"retry\"\n[locks]\nhold = \"close\"\n", weekCheck) +
			"[gateway]\nmodels = [\"main\"]\n[roles.worker]\ndeny = [\"key.pem\"]\nask = [\"deploy.txt\"]\n" +
			"[roles.worker.tools]\ndefault = \"approve\"\nauto_deny = [\"shell(*forbidden*)\"]\n[roles.reader.tools]\ndefault = \"approve\"\n",
		mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", install, install),
		box:    fmt.Sprintf("path = [%q]", filepath.Join(install, "node_modules", ".bin")),
	})
	r.project = r.up()
	r.add(name, "--base", name, "--role", "worker")
	return r
}

// begins gives the program a task.
func (r *realRun) begins(prompt string, script ...step) api.Task {
	r.t.Helper()
	var task api.Task
	r.model.play(script...)
	require.NoError(r.t, json.Unmarshal([]byte(r.must("--json", "run", "--detach", "--model", gatewayAgents[r.name].model, r.name, "--", prompt)), &task))
	return task
}

// merged waits until the last task is merged.
func (r *realRun) merged() api.Task {
	r.t.Helper()
	r.ended()
	got := r.settled(r.name)
	require.Equal(r.t, api.OutcomeMerged, got.Outcome, "%+v\n%s\n%s", got, r.must("agents", "watch", "-n", "200", r.name), r.model.log())
	return got
}

// ready waits until the agent has no task.
func (r *realRun) ready() {
	r.t.Helper()
	r.eventually(r.name+" is idle", func() bool { a, _ := r.agent(r.name); return a.Status == api.StatusIdle })
}

// waits waits until a call has made a file in the agent's home.
func (r *realRun) waits(file string) {
	r.t.Helper()
	r.late(file+" is made", func() bool { return r.noted(file) })
}

// late waits for what can take some minutes on a machine with other work.
func (r *realRun) late(what string, so func() bool) {
	r.t.Helper()
	require.Eventually(r.t, so, 5*patience, 100*time.Millisecond, "%s\n%s", what, r.model.log())
}

// noted reports whether a file is in the agent's home.
func (r *realRun) noted(file string) bool {
	_, err := os.Stat(r.home(r.name, file))
	return err == nil
}

// quiet runs cycles of the patrol until one has seen so of the agent, and requires that none finds anything.
func (r *realRun) quiet(what string, so func(api.PatrolAgent) bool) (last api.PatrolAgent) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		rep := r.patrol()
		for _, f := range rep.Findings {
			r.t.Fatalf("%s: the patrol finds %+v", what, f)
		}
		last = r.seen(r.name, rep)
		return so(last)
	}, 5*patience, 500*time.Millisecond, "%s: %+v", what, &last)
	return last
}

// commitStep commits a new file.
func commitStep(file string) step {
	return shellStep(fmt.Sprintf("echo %[1]s > %[1]s.txt && git add %[1]s.txt && git commit -qm %[1]s", file))
}

func (r *realRun) deniedByRule() string {
	r.begins("remove it", shellStep("rm -f key.pem; echo forbidden > key.pem"), commitStep("ruled"))
	r.merged()
	_, results := r.model.played()
	require.NotEmpty(r.t, results)
	why := r.must("agents", "why", r.name)
	if _, hook := programhook.ByName(r.name); hook {
		require.Contains(r.t, results[0], "of the role denies it")
		require.Contains(r.t, why, "forbidden")
		require.Contains(r.t, r.must("tasks", "show", r.name+".1"), "forbidden")
		return "before the tool runs; in `why`, steps"
	}
	require.Contains(r.t, why, "key.pem")
	return "at the system call; in `why`"
}

func (r *realRun) askedInTheForeground() string {
	term := r.terminal(r.project)
	// An index of the same second would have git read the file, and ask, in each later command.
	r.model.play(shellStep("cp README.md deploy.txt"), shellStep("sleep 1.1; git add deploy.txt && git commit -qm deployed"))
	term.types(fmt.Sprintf("polisctl run --model %s %s 'deploy it'\r", gatewayAgents[r.name].model, r.name))
	questions := 0
	for over := false; !over; {
		r.late("the task ends or asks", func() bool {
			all := r.tasks(r.name)
			over = all[len(all)-1].Ended != nil && len(all) == 2
			return over || len(r.questions()) > 0
		})
		if over {
			break
		}
		id := r.questions()[0].ID
		term.sees("[s]kip\r\n")
		term.types("a")
		term.sees("approved " + id)
		questions++
	}
	require.Positive(r.t, questions)
	r.merged()
	term.types("exit\r")
	return "answered by a key"
}

func (r *realRun) spokenTo() string {
	r.model.listen("MARZIPAN")
	task := r.begins("work", shellStep("touch ~/begun; while ! test -e ~/go; do sleep 0.1; done; rm ~/go ~/begun"), shellStep("sleep 0.1"), commitStep("spoken"))
	r.waits("begun")
	var said api.SayResponse
	require.NoError(r.t, json.Unmarshal([]byte(r.must("--json", "say", r.name, "use the word MARZIPAN")), &said))
	require.False(r.t, r.model.heardOf("MARZIPAN"))
	r.sh(r.name, "touch ~/go")
	r.late("its model has the text", func() bool { return r.model.heardOf("MARZIPAN") })
	r.late("the work is merged", func() bool { return r.taskRecord(task.ID).Outcome == api.OutcomeMerged })
	r.ready()
	if r.taskRecord(said.Task.ID).Said.To == task.ID {
		return "in the same task"
	}
	return "as the next task"
}

func (r *realRun) repairsItsCheck() string {
	r.must("agents", "set", r.name, "--role", "reader") // the output of a check can have the content of any file
	r.begins("make it", shellStep("echo bad > bad.txt && git add bad.txt && git commit -qm bad"))
	r.ended()
	require.Equal(r.t, api.OutcomeCheckFailed, r.settled(r.name).Outcome, "%s", r.model.log())
	r.ready()
	r.model.listen("| WALNUT")
	r.model.play(shellStep("git rm -q bad.txt && git commit -qm repaired"))
	r.must("queue", "rework", r.name, "--same")
	r.merged()
	require.True(r.t, r.model.heardOf("| WALNUT"), "its model has what the check printed\n%s", r.model.log())
	require.NotContains(r.t, git(r.t, r.project, "ls-files"), "bad.txt")
	return "its model has the output; merged"
}

func (r *realRun) computes() string {
	r.begins("compile it", shellStep("touch ~/begun; timeout 20 sh -c 'while :; do :; done'; rm ~/begun"), commitStep("compiled"))
	r.waits("begun")
	// A program that continues beside a long command can end before it.
	r.quiet("it computes", func(api.PatrolAgent) bool {
		all := r.tasks(r.name)
		return !r.noted("begun") || all[len(all)-1].Ended != nil
	})
	r.merged()
	r.sh(r.name, "rm -f ~/begun")
	return "not found"
}

func (r *realRun) hangsInATool() string {
	task := r.begins("wait", shellStep("touch ~/begun; exec sleep 1000"))
	r.waits("begun")
	defer r.sh(r.name, "rm -f ~/begun")
	var f *api.PatrolFinding
	r.late("the patrol finds it, or the program continues without the call", func() bool {
		for _, one := range r.patrol().Findings {
			if one.Agent == r.name {
				f = &one
			}
		}
		return f != nil || r.taskRecord(task.ID).Ended != nil
	})
	if f == nil {
		r.ready()
		return "the program continues"
	}
	require.Equal(r.t, api.PatrolStalled, f.Class)
	r.ends(task)
	return "`stalled`"
}

func (r *realRun) awaitsItsModel() string {
	r.model.hold()
	r.begins("ask it", commitStep("awaited"))
	r.late("its model has a request", r.model.holds)
	asked := time.Now()
	a := r.quiet("its model is slow", func(api.PatrolAgent) bool { return time.Since(asked) > 20*time.Second })
	require.Contains(r.t, a.Waits, "its model since ")
	r.model.release()
	r.merged()
	return "awaited"
}

func (r *realRun) hasNoAnswer() string {
	r.model.hold()
	task := r.begins("ask it", commitStep("never"))
	r.late("its model has a request", r.model.holds)
	f := r.found()
	require.Equal(r.t, api.PatrolStalled, f.Class)
	require.Contains(r.t, strings.Join(f.Evidence, "; "), "its model since ")
	for range 5 {
		r.patrol()
	}
	cases := slices.DeleteFunc(r.openCases(), func(c api.Case) bool { return c.Agent != r.name })
	require.Len(r.t, cases, 1, "it is found once")
	r.ends(task)
	r.model.release()
	return "`stalled`, once"
}

// found is what the patrol finds.
func (r *realRun) found() (f api.PatrolFinding) {
	r.t.Helper()
	r.late("the patrol finds it", func() bool {
		for _, f = range r.patrol().Findings {
			if f.Agent == r.name {
				return true
			}
		}
		return false
	})
	return f
}

// ends cancels a task.
func (r *realRun) ends(task api.Task) {
	r.t.Helper()
	r.must("tasks", "cancel", task.ID)
	r.ended()
	r.ready()
}

func (r *realRun) isRestarted() string {
	task := r.begins("go through it", shellStep("touch ~/begun; while ! test -e ~/go; do sleep 0.1; done; rm ~/go ~/begun"), commitStep("restarted")) // codex refuses rm -f
	r.waits("begun")
	r.crashAll(r.name)
	require.NoError(r.t, os.WriteFile(r.home(r.name, "go"), nil, 0o644))
	r.start()
	r.late("the task is given again", func() bool {
		all := r.tasks(r.name)
		return all[len(all)-1].ID != task.ID && all[len(all)-1].Ended != nil
	})
	require.Equal(r.t, api.OutcomeLost, r.taskRecord(task.ID).Outcome)
	r.merged()
	return "given again; merged"
}

func (r *realRun) waitsAtItsPrompt() string {
	r.model.play()
	r.must("agents", "start", "--program", r.name)
	r.quiet("it waits for a person", func(a api.PatrolAgent) bool { return a.Status == api.StatusRunning && a.QuietSeconds > 20 })
	r.must("agents", "stop", r.name)
	return "not found"
}

const weekHeading = "## A week"

// aboutWeek is the section of TestRealWeek, which follows its heading.
func aboutWeek(names []string, seen [][]string) string {
	var b strings.Builder
	b.WriteString(`The same run has each program go through what happens in a week, by the gateway, with a check of merges, ` + "`[tasks] on_restart = \"retry\"`" + `,
and a patrol with short times (` + "`stalled_after = \"12s\"`, `model_after = \"40s\"`" + `). Else the run fails: denied calls leave a trace, the question is
shown by ` + "`polisctl run`" + ` and answered there, the text of ` + "`polisctl say`" + ` reaches the model, the model of a rework has the output of the check, the patrol finds what hangs
and nothing else, and a task that a crash of the machine ended is given again and merged.

| |`)
	for _, s := range week {
		fmt.Fprintf(&b, " %s |", s.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(week)) + "\n")
	for i, name := range names {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.Join(seen[i], " | "))
	}
	b.WriteString("\n")
	return b.String()
}
