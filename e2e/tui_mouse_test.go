package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Buttons, as a terminal reports them.
const (
	buttonLeft      = 0
	buttonWheelUp   = 64
	buttonWheelDown = 65
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

// press presses a key until it has its effect: keys do nothing until the question that they answer, or the agent that they are
// for, was to be seen for a moment.
func (p *pane) press(key, effect string) {
	p.d.t.Helper()
	var last time.Time
	p.d.eventually("on the screen after "+key+": "+effect, func() bool {
		if regexp.MustCompile(effect).MatchString(p.text()) {
			return true
		}
		if now := time.Now(); now.Sub(last) > 2*time.Second {
			last = now
			p.key(key)
		}
		return false
	})
}

// command opens the list of commands and types one.
func (p *pane) command(text string) {
	p.d.t.Helper()
	p.key(":")
	p.shows(`polis  commands`)
	p.line(text)
}

// reports is whether the terminal reports the mouse to the program in it.
func (p *pane) reports() string {
	return strings.TrimSpace(p.run("display-message", "-p", "-t", p.target(), "#{mouse_any_flag}"))
}

// before waits for what a goroutine sends, and fails if it does not come.
func (d *daemon) before(what string, c <-chan result) result {
	d.t.Helper()
	var r result
	d.eventually(what, func() bool {
		select {
		case r = <-c:
			return true
		default:
			return false
		}
	})
	return r
}

func (d *daemon) taskNow(id string) api.Task {
	d.t.Helper()
	var t api.Task
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "tasks", "show", id)), &t))
	return t
}

// TestScreenByMouseAndCommands: who waits for a person is first, a merged task keeps its diff, commands are chosen by
// the words of polisctl, and what agents print breaks neither the borders nor the terminal.
func TestScreenByMouseAndCommands(t *testing.T) {
	needProgram(t, "tmux")
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
	p.mouse(buttonLeft, `│> `+id)
	p.press("a", `no agent asks for anything`)
	require.Zero(t, d.before("the answer is in zoe", asked).code, "a click answers nothing, and the key does")
	p.key("Escape")
	p.shows(`no agent waits for you`)
	p.key("Escape")
	p.shows(`│> ann `, `│  zoe +Idle`)

	// Output of an agent is shown, and does nothing.
	p.mouse(buttonLeft, `^│  bob `)
	p.shows(`│> bob `)
	p.mouse(buttonLeft, `^│  ann `)
	p.shows(`│> ann `, `hostile  nbsp \\u263a\\ufe0f e\\u0301`)
	p.mouse(buttonLeft, `^│> ann `)
	p.shows(`polis  log of ann`, `hostile  nbsp`)
	p.key("Escape") // what follows at once would be a key with alt
	p.shows(`│> ann `)

	// Its agent has nothing left that is not merged; the task has its diff.
	p.press("d", `diff of ann`)
	p.shows(`t lists its tasks`)
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
	p.mouse(buttonWheelDown, `^│> ann `)
	p.shows(`│> bob `, `output  .*said-by-bob`)
	p.key("C-p")
	p.shows(`polis  commands`)
	p.mouse(buttonWheelDown, `agents watch`)
	p.shows(`> diff`)
	p.mouse(buttonWheelUp, `agents watch`)
	p.shows(`> agents watch`)
	p.mouse(buttonLeft, `│  tasks  `)
	p.shows(`tasks of bob`, `bob\.1 `)
	p.key("Escape")
	p.shows(`polis  3 agents`)
	p.command("agents stop bob")
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

// TestTasksFromTheListOfCommands: a task is cancelled after a yes, one is retried, and files are brought back to what they
// were before a task.
func TestTasksFromTheListOfCommands(t *testing.T) {
	needProgram(t, "tmux")
	d := startDaemon(t, options{})
	d.up()
	d.worker("bob", "--auto-merge=false")
	d.task("bob", "echo one >> count")
	d.eventually("the first task is over", func() bool { return d.taskNow("bob.1").State == api.TaskEnded })
	d.must("run", "bob", "echo made > made.txt; exec sleep 600")
	d.must("run", "bob", "echo third")
	d.eventually("the second task has made its file", func() bool { return d.ctl("agents", "exec", "bob", "--", "cat", "made.txt").stdout == "made\n" })

	p := d.tmux("80", "24", "LC_ALL=C.UTF-8", "NO_COLOR=1")
	p.line("polisctl tui")
	p.shows(`│> bob +Running`, ` live `)
	p.command("tasks cancel")
	p.shows(`Cancel bob\.2 \(echo made > made\.txt; exec sleep 600\)\? Its program is ended, its\s+work stays and is not merged\. \[y/N\]`)
	p.key("n")
	p.shows(`nothing was done`)
	require.Equal(t, api.TaskRunning, d.taskNow("bob.2").State)
	p.command("tasks cancel bob.3")
	p.shows(`Drop bob\.3 \(echo third\)\? It has not begun`)
	p.key("y")
	p.shows(`task bob\.3 is cancelled`)
	p.command("tasks cancel bob")
	p.shows(`Cancel bob\.2 `)
	p.key("y")
	p.shows(`task bob\.2 is cancelled`, `│> bob +Idle`)
	require.Equal(t, api.EndCancel, d.taskNow("bob.2").EndedBy)
	require.Equal(t, api.EndCancel, d.taskNow("bob.3").EndedBy)

	// The task that is selected.
	p.key("t")
	p.shows(`tasks of bob`, `│> bob\.3 .*\n│  bob\.2 .*\n│  bob\.1 `, `: commands`)
	p.mouse(buttonLeft, `│  bob\.1 `)
	p.shows(`│> bob\.1 `)
	p.key(":")
	p.shows(`for bob\.1, or type NAME or ID`)
	p.line("tasks retry")
	p.shows(`task bob\.1 is retried as bob\.4: `)
	d.eventually("it is done again", func() bool { return d.taskNow("bob.4").State == api.TaskEnded })
	require.Equal(t, "bob.1", d.taskNow("bob.4").RetryOf)
	require.Equal(t, "one\none\n", d.exec("bob", "cat", "count").stdout)
	p.key("Escape")
	p.shows(`│> bob +Idle`)

	p.command("rewind bob before task 2")
	p.shows(`Rewind bob to s\w+\? 2 paths are brought back, which\s+can\s+be\s+undone`)
	p.key("n")
	p.shows(`nothing was done`)
	require.Equal(t, "made\n", d.exec("bob", "cat", "made.txt").stdout)
	p.command("rewind bob before task 2")
	p.shows(`Rewind bob to s\w+\?`)
	p.key("y")
	if d.topMount("bob") == "overlay" { // see restorable
		p.shows(`change through its overlay only while it runs`)
		require.Equal(t, "made\n", d.exec("bob", "cat", "made.txt").stdout)
	} else {
		p.shows(`2 paths of agent bob brought back; polisctl rewind bob --to s\w+\s+undoes\s+it`)
		require.Equal(t, "one\n", d.exec("bob", "cat", "count").stdout)
		require.NotZero(t, d.exec("bob", "cat", "made.txt").code)
		p.command("rewind bob before task 2")
		p.shows(`agent bob has the files of s\w+ already`)
	}
	p.key("q")
	p.shows(`polisctl tui[^\n]*\n\$`)
	p.line("echo left=$?")
	p.shows(`left=0`)
}
