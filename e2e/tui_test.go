package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// pane is a shell in a real terminal, that of a tmux server of the test's own.
type pane struct {
	d    *daemon
	run  func(args ...string) string
	name string // of tmux's session
}

// target names the session and nothing else: tmux takes a shorter name also for the beginning of a window's, and a
// window is named after what runs in it, which at first is tmux itself.
func (p *pane) target() string { return "=" + p.name + ":" }

// second is another terminal of the same server.
func (p *pane) second(width, height string) *pane {
	p.run("new-session", "-d", "-s", "u", "-x", width, "-y", height, "/bin/sh")
	return &pane{d: p.d, run: p.run, name: "u"}
}

func (d *daemon) tmux(width, height string, env ...string) *pane {
	d.t.Helper()
	needProgram(d.t, "tmux")
	p := &pane{d: d, name: "t"}
	p.run = func(args ...string) string {
		d.t.Helper()
		cmd := exec.Command("tmux", append([]string{"-S", d.path("tmux"), "-f", "/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"), "PATH="+d.bin+":"+os.Getenv("PATH"), "PS1=$ ", "ENV=", "SHELL=/bin/sh")
		cmd.Env = append(cmd.Env, env...)
		r := capture(cmd, "")
		require.Zero(d.t, r.code, "tmux %s: %s", strings.Join(args, " "), r)
		return r.stdout
	}
	p.run("new-session", "-d", "-s", "t", "-x", width, "-y", height, "/bin/sh")
	d.t.Cleanup(func() { p.run("kill-server") })
	return p
}

func (p *pane) text() string { return p.run("capture-pane", "-p", "-t", p.target()) }

func (p *pane) line(text string) { p.run("send-keys", "-t", p.target(), "-l", text); p.key("Enter") }

func (p *pane) key(keys ...string) {
	p.run(append([]string{"send-keys", "-t", p.target()}, keys...)...)
}

// shows waits until all of the patterns are on the screen.
func (p *pane) shows(patterns ...string) {
	p.d.t.Helper()
	var last string
	defer func() {
		if p.d.t.Failed() {
			p.d.t.Logf("the screen:\n%s", last)
		}
	}()
	p.d.eventually("on the screen: "+strings.Join(patterns, ", "), func() bool {
		last = p.text()
		for _, want := range patterns {
			if !regexp.MustCompile(want).MatchString(last) {
				return false
			}
		}
		return true
	})
}

// TestScreenInATerminal steers two agents from polisctl tui, in a terminal of
// 80 by 24.
func TestScreenInATerminal(t *testing.T) {
	needProgram(t, "tmux")
	d := startDaemon(t, options{config: "[breakers]\ndenials = 20\n[patrol]\ninterval = \"1s\"\n"})
	project := d.up()
	d.worker("one", "--auto-merge=false", "--port", "3000")
	d.worker("two", "--auto-merge=false")
	d.task("one", commitOf("one.txt", "by-one")+"; echo said-by-one; echo more > new.txt")
	d.eventually("the task is done", func() bool {
		a, _ := d.agent("one")
		return a.Status == api.StatusIdle
	})

	p := d.tmux("80", "24", "NO_COLOR=1")
	p.line("echo before-it; stty -g > " + d.path("before"))
	p.line("polisctl tui")
	p.shows(`polis  2 agents`, `live`, `> one +\w+ +agent/one`, `  two +Idle +agent/two`, `said-by-one`, `3000 at \S+:\d+`, `enter log .* q quit`)

	// Panes.
	p.key("d")
	p.shows(`diff of one`, `\+by-one`, `\+more`)
	p.key("Escape")
	p.shows(`polis  2 agents`)
	p.key("l")
	p.shows(`log of one`, `said-by-one`)
	p.key("q")
	p.key("?")
	p.shows(`polis  keys`, `undo: revert its merge`)
	p.key("q")
	p.shows(`polis  2 agents`)

	// Merge: only after a yes.
	p.key("m")
	p.shows(`Merge one \(agent/one\)\? \[y/N\]`)
	require.NotRegexp(t, `\x1b\[[0-9;]*3[0-7]m`, p.run("capture-pane", "-e", "-p", "-t", p.target()), "colours in spite of NO_COLOR")
	p.key("n")
	p.shows(`nothing was done`)
	require.NotContains(t, git(t, d.bare(), "ls-tree", "--name-only", "main"), "one.txt")
	p.key("m", "y")
	p.shows(`agent/one is merged into main as`, `> one .* merged `)
	require.Contains(t, git(t, d.bare(), "ls-tree", "--name-only", "main"), "one.txt")
	require.FileExists(t, filepath.Join(project, "one.txt"))

	// Undo.
	p.key("u")
	p.shows(`Revert the merge of one`)
	p.key("y")
	p.shows(`is reverted in main by`, `> one .* reverted `)
	d.fate("one", api.MergeReverted)
	require.NotContains(t, git(t, d.bare(), "ls-tree", "--name-only", "main"), "one.txt")

	// A task, typed; what others do is seen by events.
	p.key("j")
	p.shows(`> two `)
	p.key("i")
	p.shows(`task for two: _`)
	p.line("echo typed-on-the-$(echo screen)")
	p.shows(` typed-on-the-screen`)
	p.key("/")
	p.line("one")
	p.shows(`filter "one": 1 of 2`, `> one`)
	p.key("Escape")
	d.add("three")
	p.shows(`polis  3 agents`, `  three`)

	// A larger terminal, and polisd away and back.
	p.run("resize-window", "-t", p.target(), "-x", "140", "-y", "40")
	p.shows(`LAST OUTPUT`, `two .* typed-on-the-screen`)
	require.Error(t, d.signal(syscall.SIGKILL))
	p.shows(`not connected`, `> one`)
	d.start()
	p.shows(`live`)
	d.must("agents", "remove", "--force", "three")
	p.shows(`polis  2 agents`)

	// A frozen agent and its case: thawed, and stopped when it is frozen again.
	d.must("agents", "add", "wild", "--base", "custom", "--write", "ok/**", "--", "sh", "-c", "while :; do echo > denied; done 2>/dev/null")
	d.must("agents", "start", "--program", "wild")
	p.shows(`wild +frozen`, `1 case \(C\)`)
	p.key("C")
	p.shows(`> case-1 .* pending +wild +breaker`, `now frozen`, `breaker denials: 21 in`)
	p.key("t")
	p.shows(`Thaw wild\?`)
	p.key("y")
	p.shows(`> case-2 .* pending +wild +breaker`, `now frozen`)
	p.key("x")
	p.shows(`Stop wild\?`)
	p.key("y")
	p.shows(`no case is open`)
	p.key("Escape")
	p.shows(`wild +Stopped`)
	d.must("agents", "remove", "--force", "wild")
	p.shows(`polis  2 agents`)

	// The terminal is restored, also if a signal ends the program.
	p.key("q")
	p.shows(`before-it`)
	p.givenBack("before", "after", `status=0`)
	p.line("unset NO_COLOR; sh -c 'echo $$ > " + d.path("pid") + "; exec polisctl tui'")
	p.shows(`polis  2 agents`, `live`)
	p.key("m")
	p.shows(`Merge one`)
	require.Regexp(t, `\x1b\[[0-9;]*3[0-7]m`, p.run("capture-pane", "-e", "-p", "-t", p.target()), "no colours where they are wanted")
	p.key("n")
	p.shows(`nothing was done`)
	pid, err := strconv.Atoi(strings.TrimSpace(readFile(d.path("pid"))))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	p.shows(`before-it`, `polisctl: the screen was left: interrupted by terminated\n\$`)
	p.givenBack("before", "ended", `status=143`)

	// Also while a shell has the terminal, which the signal does not reach.
	p.line("clear; sh -c 'echo $$ > " + d.path("pid") + "; exec polisctl tui'")
	p.shows(`polis  2 agents`, `live`)
	p.key("S")
	d.eventually("the shell prompts", func() bool { return regexp.MustCompile(`^\S*[$#]\s*$`).MatchString(strings.TrimSpace(p.text())) })
	p.line("echo in-the-$((20+2))")
	p.shows(`in-the-22`)
	pid, err = strconv.Atoi(strings.TrimSpace(readFile(d.path("pid"))))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	p.shows(`interrupted by terminated\n\$`)
	p.givenBack("before", "left", `status=143`)
}

// givenBack requires that the terminal is as it was when its state was put
// into the file before.
func (p *pane) givenBack(before, after, status string) {
	p.d.t.Helper()
	p.line("echo status=$?; stty -g > " + p.d.path(after))
	p.shows(status)
	p.d.eventually("stty", func() bool { return readFile(p.d.path(after)) != "" })
	require.Equal(p.d.t, readFile(p.d.path(before)), readFile(p.d.path(after)))
}
