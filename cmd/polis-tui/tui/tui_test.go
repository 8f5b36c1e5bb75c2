package tui

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// inBubble runs a test where waiting takes no time.
func inBubble(t *testing.T, f *fakeDaemon, test func(t *testing.T, s *screen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, f)
		test(t, s)
		for i, limit := range f.limits {
			require.Positive(t, limit, "call %d has no deadline", i)
		}
	})
}

func TestListReportsEverythingOfAnAgent(t *testing.T) {
	inBubble(t, twoAgents(), func(t *testing.T, s *screen) {
		text := s.text()
		for _, want := range []string{
			"2 agents, 1 running, 1 to merge, 2 leases", "> one ", "Running", "agent/one", "checking", "12M", "13000", "one is Running: claude in demo",
			"memory 12M of 512M", "3000 at 127.0.0.1:13000", "main.txt, src/a.txt", "output  second", "fourth", "two", "Stopped", "merged",
		} {
			require.Contains(t, text, want)
		}
		require.Len(t, s.m.lines(), 24)
		s.keys("j")
		require.Contains(t, s.text(), "> two ")
		require.Contains(t, s.text(), "merged 0123456789ab")
		s.send(tea.WindowSizeMsg{Width: 140, Height: 40})
		s.run(s.m.look())
		require.Contains(t, s.text(), "LAST OUTPUT")
		require.Regexp(t, `one .*Running.*fourth`, s.text())
	})
}

func TestProcessorUseIsOfTheTimeBetweenLooks(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		require.Equal(t, "-", s.m.percent(f.agents[1]))
		time.Sleep(2 * time.Second)
		f.agents[1].CPUMicros += 1_000_000
		s.run(s.m.look())
		require.Equal(t, "50%", s.m.percent(f.agents[1]))
		s.run(s.m.look()) // too soon to say anything new
		require.Equal(t, "50%", s.m.percent(f.agents[1]))
		f.agents[1].CPUMicros = 5 // started again
		time.Sleep(2 * time.Second)
		s.run(s.m.look())
		require.Equal(t, "-", s.m.percent(f.agents[1]))
	})
}

func TestKeysAskBeforeTheyChangeAnything(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		question   string
		answer     string
		calls      []string
		says       string
	}{
		{name: "merge", keys: "m", question: "Merge one (agent/one)?", answer: "y", calls: []string{"merge one"}, says: "agent/one is merged into main as 0123456789ab, 1 path"},
		{name: "no merge", keys: "m", question: "Merge one", answer: "n", says: "nothing was done"},
		{name: "enter is no yes", keys: "m", question: "Merge one", answer: "<enter>", says: "nothing was done"},
		{name: "discard", keys: "D", question: "Discard one and its branch agent/one?", answer: "y", calls: []string{"discard one"}, says: "polisctl restore one brings it back"},
		{name: "no discard", keys: "D", question: "Discard one", answer: "<esc>", says: "nothing was done"},
		{name: "end leftovers", keys: "O", question: "End what the last command of one left running?", answer: "y", calls: []string{"end leftovers one"}, says: "1 process of agent one ended"},
		{name: "stop", keys: "x", question: "Stop one?", answer: "y", calls: []string{"stop one"}, says: "agent one is Stopped"},
		{name: "undo shows what it means", keys: "u", question: "Revert the merge of one (0123456789ab) in main? (2 merges came later)", answer: "y", calls: []string{"revert one"}, says: "is reverted in main by fedcba987654"},
		{name: "no undo", keys: "u", question: "Revert the merge", answer: "q", says: "nothing was done"},
		{name: "merge from the diff", keys: "jdm", question: "Merge two", answer: "y", calls: []string{"merge two"}, says: "is merged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := twoAgents()
			f.warning = "2 merges came later"
			inBubble(t, f, func(t *testing.T, s *screen) {
				s.keys(c.keys)
				require.Contains(t, s.text(), c.question)
				require.Contains(t, s.text(), "[y/N]")
				require.Empty(t, f.changes())
				s.keys(c.answer)
				require.Equal(t, c.calls, f.changes())
				require.Contains(t, s.text(), c.says)
				require.False(t, s.left)
			})
		})
	}
}

func TestLinesGoWhereTheyAreMeant(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		calls      []string
		says       string
	}{
		{"start", "js", []string{"ready two"}, "agent two is Idle, ready for a task"},
		{"send to one that runs", "ihello you<enter>", []string{"say one: hello you"}, "queued as one.4, after one.3 ends"},
		{"task for one that does not", "jifix it<enter>", []string{"run two: fix it"}, "agent two has its task"},
		{"broadcast", "ball<enter>", []string{"broadcast: all"}, "said to 1 running agent, not to two: no ears"},
		{"corrected", "iab<backspace>c d<ctrl+w>e<enter>", []string{"say one: ac e"}, "queued as"},
		{"begun again", "iab<ctrl+u>c<enter>", []string{"say one: c"}, "queued as"},
		{"nothing", "i  <enter>", nil, "nothing was sent"},
		{"given up", "iabc<esc>", nil, "live"},
		{"keys are text while typing", "imyDyq<enter>", []string{"say one: myDyq"}, "queued as"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := twoAgents()
			inBubble(t, f, func(t *testing.T, s *screen) {
				s.send(streamMsg{})
				s.keys(c.keys)
				require.Equal(t, c.calls, f.changes())
				require.Contains(t, s.text(), c.says)
			})
		})
	}
}

func TestQuestionThatComesWhileTypingIsNotAsked(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.hold = true
		s.keys("ui")
		s.release()
		s.keys("yes<enter>")
		require.Equal(t, []string{"say one: yes"}, f.changes())
	})
}

func TestOneThingAtATimePerAgent(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.hold = true
		s.keys("mys")
		require.Contains(t, s.m.note, "wait: merging one")
		s.keys("q")
		require.Contains(t, s.text(), "Leave? Not done yet: merging one.")
		s.keys("n")
		s.release()
		require.Equal(t, []string{"merge one"}, f.changes())
		s.keys("q")
		require.True(t, s.left)
	})
}

func TestFailureReportsWhatToDo(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		f.err = api.Errorf(api.CodeMergeConflict, "conflict in \x1b[2Jmain.txt").WithHint("merge main first")
		s.keys("my")
		require.Contains(t, s.text(), "conflict in main.txt (merge main first)")
		require.Contains(t, s.text(), "not connected: conflict in ma")
		require.Contains(t, s.text(), "> one ", "what was known stays")
		f.err = nil
		s.keys("r")
		require.NotContains(t, s.text(), "not connected")
	})
}

func TestFilterAndHelp(t *testing.T) {
	inBubble(t, twoAgents(), func(t *testing.T, s *screen) {
		s.keys("/TWO")
		require.Contains(t, s.text(), "filter: TWO_")
		require.Contains(t, s.text(), "> two ")
		require.NotContains(t, s.text(), "Running   agent/one")
		s.keys("<enter>")
		require.Contains(t, s.text(), `filter "TWO": 1 of 2`)
		s.keys("/xyz")
		require.Contains(t, s.text(), "no agent matches")
		s.keys("m")
		s.keys("<esc><esc>")
		require.Contains(t, s.text(), "agent/one")
		s.keys("?")
		for _, r := range keyTable {
			require.Contains(t, s.text(), r.does)
		}
		require.LessOrEqual(t, len(s.m.helpView()), 24)
		s.keys("q")
		require.False(t, s.left, "any key closes the help")
	})
}

func TestPanes(t *testing.T) {
	f := twoAgents()
	f.logs["one"] = strings.Repeat("line\n", 100) + "\x1b[31mlast\x1b[0m\rover\n"
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("<enter>")
		require.Contains(t, s.text(), "log of one")
		require.Contains(t, s.text(), "over")
		s.keys("g")
		require.Contains(t, s.text(), "1-20 of 101")
		f.logs["one"] += "newer\n"
		s.run(s.m.reload(false))
		require.Contains(t, s.text(), "1-20 of 102", "who reads above is not moved")
		s.keys("G")
		require.Contains(t, s.text(), "newer")
		s.keys("qd")
		require.Contains(t, s.text(), "+new")
		require.Contains(t, s.text(), "diff of one")
		s.keys("<esc>")
		s.send(eventMsg{ID: 1, Type: api.EventDenied, Agent: "two", Message: "no\x1b[2J"})
		require.Contains(t, s.text(), "access:denied")
		s.keys("e")
		require.Contains(t, s.text(), `two        no`)
		s.keys("qq")
		require.True(t, s.left)
	})
}

// TestScreenFits: whatever agents are called, write and do, and however large
// the terminal is, the screen has its size and no control characters.
func TestScreenFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hostile := rapid.OneOf(rapid.StringN(0, 60, 200), rapid.Just("\x1b]0;owned\x07\x1b[2J\x9b31m"), rapid.Just("\u202eabc\u4e2d\u6587\U0001f600"),
			rapid.StringOfN(rapid.RuneFrom([]rune("ab\u0301\ufe0f\u200d\u263a\U0001f469\U0001f3fd\u4e2d\u00a0\u1100\u1161\n\r\t\x1b\x9b")), 0, 60, -1))
		m := newModel(Options{}, &tasks{ctx: t.Context()})
		m.Update(tea.WindowSizeMsg{Width: rapid.IntRange(1, 200).Draw(rt, "width"), Height: rapid.IntRange(1, 60).Draw(rt, "height")})
		look := lookMsg{leases: map[string][]api.Lock{}}
		for i := range rapid.IntRange(0, 60).Draw(rt, "agents") {
			g := api.Agent{Name: fmt.Sprintf("agent-%02d", i), Branch: hostile.Draw(rt, "branch"), Workspace: hostile.Draw(rt, "workspace"), StatusReason: hostile.Draw(rt, "reason"),
				Status: api.Status(hostile.Draw(rt, "status")), MemoryBytes: rapid.Int64().Draw(rt, "memory")}
			look.agents = append(look.agents, g)
			look.leases[g.Name] = []api.Lock{{Path: hostile.Draw(rt, "path"), Holder: g.Name}}
			m.output[g.Name] = []string{clean(hostile.Draw(rt, "output"))}
		}
		for i := range rapid.IntRange(0, 12).Draw(rt, "cases") {
			look.open = append(look.open, api.Case{ID: fmt.Sprint("case-", i), Agent: hostile.Draw(rt, "agent of a case"), Kind: hostile.Draw(rt, "kind"), Evidence: []string{hostile.Draw(rt, "evidence")}, Next: hostile.Draw(rt, "next")})
		}
		m.reading = true
		m.Update(look)
		m.Update(eventMsg{Type: hostile.Draw(rt, "type"), Message: hostile.Draw(rt, "message")})
		look.agents = append(look.agents, api.Agent{Name: "asks", Waiting: &api.Waiting{For: api.WaitingApproval, ID: hostile.Draw(rt, "id"), What: hostile.Draw(rt, "asked")}})
		for range rapid.IntRange(0, 12).Draw(rt, "keys") {
			if rapid.IntRange(0, 3).Draw(rt, "mouse") == 0 {
				at := tea.Mouse{X: rapid.IntRange(-1, 210).Draw(rt, "x"), Y: rapid.IntRange(-1, 70).Draw(rt, "y"), Button: rapid.SampledFrom([]tea.MouseButton{tea.MouseLeft, tea.MouseRight, tea.MouseWheelDown, tea.MouseWheelUp}).Draw(rt, "button")}
				m.Update(tea.MouseClickMsg(at))
				m.Update(tea.MouseWheelMsg(at))
			}
			if rapid.IntRange(0, 5).Draw(rt, "resized") == 0 {
				m.Update(tea.WindowSizeMsg{Width: rapid.IntRange(1, 200).Draw(rt, "new width"), Height: rapid.IntRange(1, 60).Draw(rt, "new height")})
			}
			if s := m.taskScreen; s != nil {
				s.loading = false
				task := api.Task{ID: hostile.Draw(rt, "task"), Prompt: hostile.Draw(rt, "prompt"), Result: hostile.Draw(rt, "result"), CheckOutput: hostile.Draw(rt, "check"), Steps: []api.Step{{Text: hostile.Draw(rt, "step")}}}
				task.Prompt = rapid.SampledFrom([]string{task.Prompt, "x\r\x1b[m", "x\r\xc2\x9b2J", "x\r" + task.Prompt}).Draw(rt, "overwritten")
				m.Update(tasksMsg{screen: s, all: []api.Task{task, {ID: "x.1"}}, whole: task})
			}
			if p := m.pane; p != nil {
				m.Update(linesMsg{pane: p, lines: []string{clean(hostile.Draw(rt, "line")), prose(hostile.Draw(rt, "prose")), verbatim(hostile.Draw(rt, "verbatim"))}})
			}
			k := rapid.SampledFrom([]string{":", "t", "d", "l", "j", "k", "G", "g", "/", "e", "?", "m", "D", "x", "n", "i", "C", "r", "t", "esc", "pgdown", "right"}).Draw(rt, "key")
			m.key(tea.KeyPressMsg(map[string]tea.Key{"esc": {Code: tea.KeyEscape}, "pgdown": {Code: tea.KeyPgDown}, "right": {Code: tea.KeyRight}}[k]))
			if len(k) == 1 {
				m.Update(tea.KeyPressMsg(tea.Key{Code: rune(k[0]), Text: k}))
			}
			m.Update(tea.PasteMsg{Content: hostile.Draw(rt, "paste")})
			if m.fail(errText(fmt.Errorf("%s", hostile.Draw(rt, "error")))); m.help || m.pane != nil {
				m.busy = map[string]string{}
			}
			lines := m.lines()
			require.LessOrEqual(rt, len(lines), m.height)
			if m.width >= minWidth && m.height >= minHeight && !m.help {
				require.Len(rt, lines, m.height)
			}
			for _, l := range lines {
				require.LessOrEqual(rt, ansi.StringWidth(l), m.width, "%q", l)
				require.Equal(rt, ansi.StringWidth(l), ansi.StringWidthWc(l), "%q", l)
				for _, r := range ansi.Strip(l) {
					require.False(rt, r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e', "%q", l)
				}
			}
			if m.width >= minWidth && m.height >= minHeight {
				for _, l := range lines[:len(lines)-len(m.foot())] {
					require.Equal(rt, m.width, ansi.StringWidth(l), "%q", l)
					require.Regexp(rt, `(?s)^[|+].*[|+]$`, ansi.Strip(l), "the border is whole")
				}
			}
		}
	})
}

func TestStreamContinuesFromTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var since []uint64
		f := &fakeDaemon{events: func(ctx context.Context, from uint64, fn func(api.Event) error) error {
			switch since = append(since, from); len(since) {
			case 1:
				require.NoError(t, fn(api.Event{ID: 7}))
				return api.Errorf(api.CodeUnavailable, "connection to polisd was lost")
			case 2: // says nothing, as a dead one does
				<-ctx.Done()
				return ctx.Err()
			}
			stop()
			return nil
		}}
		var got []string
		follow(ctx, f, func(msg tea.Msg) {
			switch msg := msg.(type) {
			case eventMsg:
				got = append(got, fmt.Sprint("event ", msg.ID))
			case streamMsg:
				got = append(got, fmt.Sprint("stream ", msg.err))
			}
		})
		require.Equal(t, []uint64{0, 7, 7}, since)
		require.Equal(t, []string{"stream <nil>", "event 7", "stream connection to polisd was lost", "stream <nil>", "stream <nil>"}, got)
	})
}

func TestWhatIsKeptHasABound(t *testing.T) {
	inBubble(t, twoAgents(), func(t *testing.T, s *screen) {
		for i := range 10 * maxEvents {
			s.m.Update(eventMsg{ID: uint64(i)})
		}
		require.LessOrEqual(t, len(s.m.events), 2*maxEvents)
		require.Equal(t, uint64(10*maxEvents-1), s.m.events[len(s.m.events)-1].ID)
	})
	long := strings.Repeat("x", 100<<10)
	lines, cut, err := read(strings.NewReader("a\n"+long+"\nb"), 10, false, clean)
	require.NoError(t, err)
	require.False(t, cut)
	require.Equal(t, []string{"a", long[:maxLine] + "~", "b"}, lines)
	lines, cut, err = read(strings.NewReader(strings.Repeat("y\n", 1000)+"z\n"), 10, true, clean)
	require.NoError(t, err)
	require.True(t, cut)
	require.Less(t, len(lines), 20)
	require.Equal(t, "z", lines[len(lines)-1])
	_, cut, err = read(strings.NewReader(strings.Repeat("y", maxRead+1)), 10, true, clean)
	require.NoError(t, err)
	require.True(t, cut)
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\tb": "a    b", "10%\r100%\r\n": "100%", "\x1b[31mred\x1b[0m": "red", "bell\x07": `bell\x07`,
		"bad \xff": "bad ", "\u202egnp": `\u202egnp`, "caf\u00e9": "caf\u00e9",
		"a\u00a0b": `a\u00a0b`, "\u4e2d\u6587": "\u4e2d\u6587", "\u263a\ufe0f": `\u263a\ufe0f`, "e\u0301\u0301": "e\u0301\u0301", "e" + strings.Repeat("\u0301", 6): "e" + strings.Repeat(`\u0301`, 6),
	} {
		require.Equal(t, want, clean(in), "%q", in)
	}
	require.Equal(t, "\u00ab TVA \u00bb :", prose("\u00ab\u00a0TVA\u202f\u00bb\u2003:"))
}

// Borders stand where they should only if every terminal agrees on the width of what is before them.
func TestPropertyWhatIsShownHasOneWidth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("a \u0301\ufe0f\u200d\u263a\U0001f469\U0001f3fd\U0001f1e9\U0001f1ea\u4e2d\u1100\u1161\u0e33\u0d4e\u3164\u00ad\u2028\x1b[m\r\t")), 0, 40, -1)).Draw(rt, "text")
		for _, got := range []string{clean(s), prose(s), verbatim(s)} {
			require.Equal(rt, ansi.StringWidth(got), ansi.StringWidthWc(got), "%q", got)
			require.Equal(rt, ansi.StringWidth(got)+4, ansi.StringWidth("| "+got+" |"), "%q", got)
			require.Equal(rt, got, clean(got), "what is harmless stays")
		}
	})
}

func TestLocksAndLeftoversHaveAPane(t *testing.T) {
	f := twoAgents()
	f.locks = []api.Lock{{Holder: "one", Path: "src\x1b[2J.go", LockType: "write", Waiting: []api.Waiter{{Holder: "two"}}}, {Holder: "two", Path: "other.go"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.send(s.m.look()())
		s.keys("L")
		require.Contains(t, s.text(), "locks of one")
		require.Contains(t, s.text(), "two waits since")
		require.NotContains(t, s.text(), "other.go")
		s.keys("<esc>o")
		require.Contains(t, s.text(), "leftovers of one")
		require.Contains(t, s.text(), "350 MB  node  tcp port 25463")
		require.NotContains(t, strings.Join(s.m.lines(), "\n"), "\x1b[2J")
		require.Empty(t, f.changes())
	})
}

// attach and shell need the terminal: polisctl gets it until it ends.
func TestAttachAndShellHandTheTerminalOver(t *testing.T) {
	f := twoAgents()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("a")
		require.Contains(t, s.text(), "run polisctl agents attach one in another")
		var calls [][]string
		s.m.polisctl = func(args ...string) *exec.Cmd {
			calls = append(calls, args)
			return exec.CommandContext(t.Context(), "true")
		}
		s.keys("aS")
		require.Equal(t, [][]string{{"agents", "attach", "one"}, {"agents", "shell", "one"}}, calls)
		require.NoError(t, handed(exec.CommandContext(t.Context(), "false").Run()), "it has printed why")
		require.Error(t, handed(exec.CommandContext(t.Context(), "/nonexistent").Run()))
	})
}

func TestTheTasksOfAnAgentHaveAPane(t *testing.T) {
	f := twoAgents()
	f.tasks = []api.Task{{ID: "one.1", Agent: "one", Prompt: "first line\nsecond", Result: "conflict: src/cart.js"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.send(s.m.look()())
		s.keys("t")
		require.Contains(t, s.text(), "tasks of one")
		require.Contains(t, s.text(), "one.1")
		require.Contains(t, s.text(), "conflict: src/cart.js")
		require.Contains(t, s.text(), "first line...")
		require.Contains(t, s.text(), "prompt      first line")
		require.Contains(t, s.text(), "            second", "the details have all")
	})
}

func TestTheStepsOfATaskAreShown(t *testing.T) {
	f := twoAgents()
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	f.tasks = []api.Task{{ID: "one.1", Agent: "one", Prompt: "first", Began: &began}, {ID: "one.2", Agent: "one", Prompt: "second", Began: &began, State: api.TaskRunning},
		{ID: "one.3", Agent: "one", Prompt: "third", State: api.TaskQueued}}
	f.steps = []api.Step{{Time: began, Kind: api.StepEdit, Text: "src/cart.js"},
		{Time: began, Kind: api.StepCommand, Text: "make test\x1b[2J", Failed: true},
		{Time: began, Kind: api.StepRefused, Text: "write of src/api.js (FILE_LOCKED, held by two)"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("t")
		text := s.text()
		require.Contains(t, text, "> one.3")
		s.keys("j")
		text = s.text()
		require.Contains(t, text, "edit     src/cart.js")
		require.Contains(t, text, "command! make test")
		require.Contains(t, text, "refused  write of src/api.js (FILE_LOCKED, held by two)")
		require.Contains(t, text, "2 steps before")
		require.NotContains(t, text, "\x1b[2J")
	})
}
