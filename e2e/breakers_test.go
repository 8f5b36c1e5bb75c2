package e2e

import (
	"errors"
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

// TestADeletionBreakerFreezes an agent at its limit, names what it did, and a thaw lets it go on.
func TestADeletionBreakerFreezes(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[roles.x.breakers]\ndeletions = 100\n"})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", "read go; rm -rf many; echo done > end.txt; exec sleep 1000")
	d.trackedFiles("wild")
	a, _ := d.agent("wild")
	left := func() int { return len(glob(filepath.Join(a.WorktreePath, "many", "*"))) }

	// What git does itself, and what it does not track, is no deletion.
	d.sh("wild", `git checkout -q HEAD~ && git checkout -q - && mkdir dist && echo dist > .gitignore && for i in $(seq 300); do echo > dist/$i; echo > new$i; done && rm -rf dist new*`)
	require.Nil(t, d.waiting("wild"))

	d.must("agents", "start", "wild")
	d.must("send", "wild", "go")
	d.eventually("it is frozen", func() bool { w := d.waiting("wild"); return w != nil && w.For == api.WaitingThaw })
	at := left()
	require.InDelta(t, 299, at, 5, "it was frozen as it passed the limit")
	var c []api.Case
	d.eventually("a case is open", func() bool { c = d.openCases(); return len(c) == 1 })
	require.Equal(t, []any{"breaker", "wild", api.CasePending}, []any{c[0].Kind, c[0].Agent, c[0].State})
	text := strings.Join(c[0].Evidence, "\n")
	require.Contains(t, text, "breaker deletions: 101 in")
	require.Regexp(t, `processes: \d+ rm`, text)
	require.Contains(t, text, "many/")
	require.Contains(t, d.must("agents", "list"), "waiting for thaw")
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
		d.eventually("it goes on", func() bool { return left() == 0 || d.waiting("wild") != nil })
		if left() == 0 {
			break
		}
	}
	d.eventually("it has ended what it did", func() bool { _, err := os.Stat(filepath.Join(a.WorktreePath, "end.txt")); return err == nil })
	require.Empty(t, d.openCases())
	require.Contains(t, d.refused(api.CodeBadState, "agents", "thaw", "wild").Message, "is not frozen")
}

// TestAFrozenAgentIsStopped without a chance to go on, and its work stays.
func TestAFrozenAgentIsStopped(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[breakers]\ndenials = 20\n"})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "ok/**", "--read", "**", "--", "sh", "-c", `mkdir ok; echo kept > ok/kept; trap 'echo later > ok/later' TERM; while :; do echo x > README.md; done 2>/dev/null`)
	d.must("agents", "start", "wild")
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
	d.must("agents", "start", "wild")
	d.eventually("it is frozen", func() bool { return d.waiting("wild") != nil })
	require.Contains(t, d.waiting("wild").What, "breaker written_mb")
	first := d.waiting("wild").Since
	d.must("agents", "thaw", "wild")
	d.eventually("it is frozen again", func() bool { w := d.waiting("wild"); return w != nil && w.Since.After(first) })
	d.must("agents", "stop", "wild")
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
