package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// mouse sends what a terminal sends for a button at the line of the screen that a pattern matches (SGR mode of xterm).
func (p *pane) mouse(button int, pattern string) {
	p.d.t.Helper()
	y := 0
	p.d.eventually("on the screen: "+pattern, func() bool {
		for i, line := range strings.Split(p.text(), "\n") {
			if regexp.MustCompile(pattern).MatchString(line) {
				y = i + 1
				return true
			}
		}
		return false
	})
	p.run("send-keys", "-t", p.target(), "-l", fmt.Sprintf("\x1b[<%d;5;%dM", button, y))
}

// reports is whether the terminal reports the mouse to the program in it.
func (p *pane) reports() string {
	return strings.TrimSpace(p.run("display-message", "-p", "-t", p.target(), "#{mouse_any_flag}"))
}

// TestScreenByMouseAndCommands: who waits for a person is first, a merged task keeps its diff, commands are chosen by
// the words of polisctl, and what agents print breaks neither the borders nor the terminal.
func TestScreenByMouseAndCommands(t *testing.T) {
	needProgram(t, "tmux")
	const left, wheelUp, wheelDown = 0, 64, 65
	d := startDaemon(t, options{})
	d.up()
	d.worker("ann")
	d.worker("bob")
	d.worker("zoe")
	d.task("ann", commitOf("ann.txt", "by-ann")+`; printf 'hostile \033]0;owned\007\033[2J\033[31m\302\240nbsp \342\230\272\357\270\217 e%s end\n' "$(printf '\314\201%.0s' 1 2 3 4 5 6 7 8 9)"`)
	d.fate("ann", api.MergeMerged)
	asked := d.working("zoe", "polisctl ask -- make one")
	id := d.question("zoe").ID

	p := d.tmux("80", "24", "LC_ALL=C.UTF-8", "NO_COLOR=1")
	p.line("echo before-it; stty -g > " + d.path("before"))
	p.line("polisctl tui")
	p.shows(`(?m)^╭─ polis  3 agents, 1 question \(A\).* live ─╮$`, `(?m)^│> zoe +waiting .*│\n│  ann +Idle .* merged .*│\n│  bob `, `zoe: has waited \S+ for your answer to `+id, `enter log  A answer .* \? help  q quit`)
	require.Equal(t, "1", p.reports())

	p.key("/")
	p.line("waiting")
	p.shows(`│> zoe `, `filter "waiting": 1 of 3`)
	require.NotRegexp(t, `│  (ann|bob) `, p.text())
	p.key("A")
	p.shows(`│> `+id, `make one`)
	p.key("a")
	require.Zero(t, (<-asked).code)
	p.shows(`no agent asks for anything`)
	p.key("Escape")
	p.shows(`no agent waits for you`)
	p.key("Escape")
	p.shows(`│> ann `, `│  zoe +Idle`)

	// Output of an agent is shown, and does nothing.
	p.mouse(left, `^│  bob `)
	p.shows(`│> bob `)
	p.mouse(left, `^│  ann `)
	p.shows(`│> ann `, `hostile  nbsp \\u263a\\ufe0f e\\u0301`)
	p.mouse(left, `^│> ann `)
	p.shows(`polis  log of ann`, `hostile  nbsp`)
	p.key("Escape") // what follows at once would be a key with alt
	p.shows(`│> ann `)

	// Its agent has nothing left that is not merged; the task has its diff.
	p.key("d")
	p.shows(`diff of ann`, `t lists its tasks`)
	p.key("Escape")
	p.shows(`│> ann `)
	p.key("t")
	p.shows(`tasks of ann`, `│> ann\.1 .* merged`, `key d shows the diff`)
	p.key("d")
	p.shows(`diff of task ann\.1`, `\+by-ann`)
	p.key("Escape")
	p.shows(`│> ann\.1 `)
	p.key("Enter")
	p.shows(`output of task ann\.1`, `hostile  nbsp`)
	p.key("q", "q")
	p.shows(`polis  3 agents`)

	// Commands, by key and by mouse.
	p.key(":")
	p.shows(`polis  commands`, `> agents watch`)
	p.line("run bob echo said-by-bob")
	p.shows(`agent bob has its task`)
	p.mouse(wheelDown, `^│> ann `)
	p.shows(`│> bob `, `output  .*said-by-bob`)
	p.key("C-p")
	p.shows(`polis  commands`)
	p.mouse(wheelDown, `agents watch`)
	p.shows(`> diff`)
	p.mouse(wheelUp, `agents watch`)
	p.shows(`> agents watch`)
	p.mouse(left, `│  tasks `)
	p.shows(`tasks of bob`, `bob\.1 `)
	p.key("Escape")
	p.shows(`polis  3 agents`)
	p.key(":")
	p.shows(`polis  commands`)
	p.line("agents stop bob")
	p.shows(`Stop bob\?`)
	p.key("y")
	p.shows(`│> bob +Stopped`, `s start`)
	a, _ := d.agent("bob")
	require.Equal(t, api.StatusStopped, a.Status)

	// Small and large.
	p.run("resize-window", "-t", p.target(), "-x", "40", "-y", "10")
	p.shows(`(?m)^╭─ polis  3 agents.*╮$`, `(?m)^│> bob +Stopped .*│$`, `(?m)^╰─+╯$`, `\? help  q quit`)
	p.run("resize-window", "-t", p.target(), "-x", "200", "-y", "60")
	p.shows(`LAST OUTPUT +│`, `(?m)^│> bob .*said-by-bob +│$`)

	p.key("q")
	p.shows(`before-it`)
	p.givenBack("before", "after", `status=0`)
	require.Equal(t, "0", p.reports(), "the mouse belongs to the terminal again")
}
