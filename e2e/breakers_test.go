package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// trackedFiles makes 400 files that git tracks in an agent's worktree.
func (d *daemon) trackedFiles(agent string) {
	d.t.Helper()
	d.sh(agent, `mkdir -p many && for i in $(seq 400); do echo $i > many/$i; done && git add -A && git commit -qm many`)
}

func (d *daemon) waiting(agent string) *api.Waiting {
	d.t.Helper()
	a, _ := d.agent(agent)
	return a.Waiting
}

// TestADeletionBreakerFreezes an agent at its limit and names the last deletions. After a thaw the
// agent continues.
func TestADeletionBreakerFreezes(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[roles.x.breakers]\ndeletions = 100\n"})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", "read go; rm -rf many; echo done > end.txt; exec sleep 1000")
	d.trackedFiles("wild")
	a, _ := d.agent("wild")
	left := func() int { return len(glob(filepath.Join(a.WorktreePath, "many", "*"))) }

	// Deletions by git itself, and of files that git does not track, do not count.
	d.sh("wild", `git checkout -q HEAD~ && git checkout -q - && mkdir dist && echo dist > .gitignore && for i in $(seq 300); do echo > dist/$i; echo > new$i; done && rm -rf dist new*`)
	require.Nil(t, d.waiting("wild"))

	d.must("agents", "start", "--program", "wild")
	byTerm := d.background("agents", "exec", "wild", "--", "sh", "-c", "echo runs; exec sleep 1000")
	byInt := d.background("agents", "exec", "wild", "--", "sh", "-c", "echo runs; exec sleep 1000")
	byTerm.sees("runs")
	byInt.sees("runs")
	d.must("send", "wild", "go")
	d.eventually("it is frozen", func() bool { w := d.waiting("wild"); return w != nil && w.For == api.WaitingThaw })
	at := left()
	// Its processes get no signal now: polisctl itself ends.
	for sig, w := range map[syscall.Signal]*watching{syscall.SIGTERM: byTerm, syscall.SIGINT: byInt} {
		require.NoError(t, w.cmd.Process.Signal(sig))
		w.sees("agent wild is frozen, so that its command gets no signal")
		_ = w.cmd.Wait()
		require.Equal(t, 128+int(sig), w.cmd.ProcessState.ExitCode(), w.text())
	}
	require.InDelta(t, 299, at, 5, "it was frozen as it passed the limit")
	var c []api.Case
	d.eventually("a case is open", func() bool { c = d.openCases(); return len(c) == 1 })
	require.Equal(t, []any{"breaker", "wild", api.CasePending}, []any{c[0].Kind, c[0].Agent, c[0].State})
	text := strings.Join(c[0].Evidence, "\n")
	require.Contains(t, text, "breaker deletions: 101 in")
	require.Regexp(t, `processes: \d+ rm`, text)
	require.Contains(t, text, "many/")
	require.Regexp(t, `(?s)wild .* frozen .*wild: frozen .* ago: breaker deletions: 101 in .*; polisctl agents thaw wild`, d.must("agents", "list"))
	require.Empty(t, d.patrol().Findings, "it is not stalled")
	require.Contains(t, d.must("patrol"), "a thaw: breaker deletions")
	e := d.refused(api.CodeBadState, "agents", "exec", "wild", "--", "true")
	require.Contains(t, e.Hint, "polisctl agents thaw wild")
	require.Equal(t, at, left())

	// A restart of polisd changes nothing.
	require.NoError(t, d.signalRestart())
	require.Len(t, d.openCases(), 1)
	require.Equal(t, c[0].ID, d.openCases()[0].ID)
	require.NotNil(t, d.waiting("wild"))

	for range 4 { // it trips at each further hundred
		d.must("agents", "thaw", "wild")
		d.eventually("it continues", func() bool { return left() == 0 || d.waiting("wild") != nil })
		if left() == 0 {
			break
		}
	}
	d.eventually("it has ended what it did", func() bool { _, err := os.Stat(filepath.Join(a.WorktreePath, "end.txt")); return err == nil })
	require.Empty(t, d.openCases())
	require.Contains(t, d.refused(api.CodeBadState, "agents", "thaw", "wild").Message, "is not frozen")
}

// TestAFrozenAgentIsStopped without running again, and its work stays.
func TestAFrozenAgentIsStopped(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[breakers]\ndenials = 20\n"})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "ok/**", "--read", "**", "--", "sh", "-c", `mkdir ok; echo kept > ok/kept; trap 'echo later > ok/later' TERM; while :; do echo x > README.md; done 2>/dev/null`)
	d.must("agents", "start", "--program", "wild")
	d.eventually("it is frozen", func() bool { return d.waiting("wild") != nil })
	require.Contains(t, d.waiting("wild").What, "breaker denials: 21 in")
	d.must("agents", "stop", "wild")
	a, _ := d.agent("wild")
	require.Equal(t, api.StatusStopped, a.Status)
	require.FileExists(t, filepath.Join(a.WorktreePath, "ok", "kept"))
	require.NoFileExists(t, filepath.Join(a.WorktreePath, "ok", "later"))
	d.patrol()
	require.Empty(t, d.openCases())
}

// TestBytesTripABreaker above its limit.
func TestBytesTripABreaker(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[breakers]\nwritten_mb = 64\n"})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "**", "--", "sh", "-c", "while :; do dd if=/dev/zero of=big bs=1M count=16 conv=fsync 2>/dev/null; done")
	d.must("agents", "start", "--program", "wild")
	d.eventually("it is frozen", func() bool { return d.waiting("wild") != nil })
	require.Contains(t, d.waiting("wild").What, "breaker written_mb")
	first := d.waiting("wild").Since
	d.must("agents", "thaw", "wild")
	d.eventually("it is frozen again", func() bool { w := d.waiting("wild"); return w != nil && w.Since.After(first) })
	d.must("agents", "stop", "wild")
}

// TestNewNamesAndRepeatedCommandsTripBreakers above their limit. Names that were resolved before do
// not count, and neither do commands that alternate.
func TestNewNamesAndRepeatedCommandsTripBreakers(t *testing.T) {
	world := newInternet(t)
	o := streaming(t, "codex")
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	writeFile(t, resolv, "nameserver "+dnsAddr+"\n")
	o.netns = world.host
	o.config = fmt.Sprintf("[network]\npool = \"10.236.0.0/16\"\nresolv_conf = %q\negress = [\"*.x.test\"]\n", resolv) + shortPatrol +
		"[roles.roams]\nread = [\"**\"]\nwrite = [\"**\"]\nbreakers = { names = 3 }\n[roles.loops]\nread = [\"**\"]\nwrite = [\"**\"]\nbreakers = { repeats = 3 }\n"
	d := startDaemon(t, o)
	d.up()
	evidence := func(agent string) string {
		var text string
		d.eventually(agent+" is frozen, with a case", func() bool {
			for _, c := range d.openCases() {
				if c.Agent == agent && c.Kind == "breaker" {
					text = strings.Join(c.Evidence, "\n")
				}
			}
			w := d.waiting(agent)
			return text != "" && w != nil && w.For == api.WaitingThaw
		})
		return text
	}

	for i := range 6 {
		world.name(fmt.Sprintf("n%d.x.test", i), "203.0.113.1")
	}
	d.must("agents", "add", "roams", "--base", "custom", "--role", "roams")
	look := func(name string) { d.must("agents", "exec", "roams", "--", "getent", "ahostsv4", name) }
	for range 2 {
		for i := range 3 {
			look(fmt.Sprintf("n%d.x.test", i))
		}
	}
	d.ctl("agents", "exec", "roams", "--", "getent", "ahostsv4", "nowhere.test") // is not reached: the gate refuses it
	require.Nil(t, d.waiting("roams"))
	last := d.later("roams", "getent ahostsv4 n3.x.test; getent ahostsv4 n4.x.test")
	work := make(chan result, 1)
	go func() { work <- last() }() // its program is frozen
	text := evidence("roams")
	require.Contains(t, text, "breaker names: 4 in")
	require.Contains(t, text, `last: "n3.x.test`)
	require.Zero(t, world.questions("n4.x.test"), "it does not continue")
	d.must("agents", "thaw", "roams")
	require.Zero(t, (<-work).code)
	require.NotZero(t, world.questions("n4.x.test"), "it continues")

	d.must("agents", "add", "loops", "--base", "codex", "--memory", "256", "--role", "loops")
	d.must("run", "loops", `sh: ran() { echo '{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"'"$1"'","aggregated_output":"","exit_code":0,"status":"completed"}}'; }
for i in 1 2 3 4 5 6; do ran "make test"; ran "make lint"; done; touch alternated
while ! test -e go; do sleep 0.05; done; while :; do ran "make test"; sleep 0.05; done`)
	a, _ := d.agent("loops")
	d.eventually("it has run commands in turn", func() bool { _, err := os.Stat(filepath.Join(a.WorktreePath, "alternated")); return err == nil })
	d.eventually("they are steps", func() bool {
		return d.taskRecord("loops.1").StepCount >= 12 || strings.Count(d.must("agents", "watch", "loops", "-n", "100"), "make") >= 12
	})
	require.Nil(t, d.waiting("loops"))
	writeFile(t, filepath.Join(a.WorktreePath, "go"), "")
	text = evidence("loops")
	require.Contains(t, text, "breaker repeats: 4 in")
	require.Contains(t, text, `last: "make test"`)
	d.must("agents", "stop", "loops")
	d.patrol()
	require.Empty(t, d.openCases())
}

// signalRestart kills polisd and starts it again.
func (d *daemon) signalRestart() error {
	d.t.Helper()
	if err := d.signal(syscall.SIGKILL); err == nil {
		return errors.New("polisd ended by itself")
	}
	d.start()
	return nil
}
