package tui

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (f *fakeDaemon) CancelTask(ctx context.Context, id string) (api.Task, error) {
	return api.Task{ID: id, Result: "cancelled"}, f.did(ctx, "cancel "+id)
}

func (f *fakeDaemon) RetryTask(ctx context.Context, id string) (api.Task, error) {
	return api.Task{ID: "two.9", RetryOf: id, Result: "running"}, f.did(ctx, "retry "+id)
}

// busyAgent is one with a task of each state.
func busyAgent() *fakeDaemon {
	f := twoAgents()
	f.tasks = []api.Task{
		{Via: "send", Agent: "two", Prompt: "old"},
		{ID: "two.1", Agent: "two", State: api.TaskEnded, Result: "merged", Prompt: "first"},
		{ID: "two.2", Agent: "two", State: api.TaskEnded, Result: "lost", Interrupted: api.InterruptedNew, Prompt: "second"},
		{ID: "two.3", Agent: "two", State: api.TaskEnded, Result: "no change", Prompt: "third"},
		{ID: "two.4", Agent: "two", State: api.TaskRunning, Result: "running", Prompt: "fourth\nof two lines\x1b[2J"},
		{ID: "two.5", Agent: "two", State: api.TaskQueued, Result: "queued", Prompt: "fifth"},
	}
	return f
}

func without(f *fakeDaemon, ids ...string) *fakeDaemon {
	var left []api.Task
	for _, t := range f.tasks {
		if t.ID == "" || !strings.Contains(strings.Join(ids, " "), t.ID) {
			left = append(left, t)
		}
	}
	f.tasks = left
	return f
}

func TestTasksAreCancelledAndRetriedInThePalette(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		gone       string // tasks that the agent does not have
		calls      []string
		says       string
	}{
		{"what it works on", ":tasks cancel two<enter>y", "", []string{"cancel two.4"}, "task two.4 is cancelled"},
		{"the question names it", ":tasks cancel two<enter>", "", nil, "Cancel two.4 (fourth...)? Its program is ended, its work stays"},
		{"a no", ":tasks cancel two<enter>n", "", nil, "nothing was done"},
		{"by ID", ":tasks cancel two.4<enter>y", "", []string{"cancel two.4"}, "task two.4 is cancelled"},
		{"one that waits", ":tasks cancel two.5<enter>", "", nil, "Drop two.5 (fifth)? It has not begun."},
		{"one that was lost", ":tasks cancel two.2<enter>", "", nil, "Dismiss two.2 (second)? It stays lost"},
		{"it works on none: the lost one", ":tasks cancel two<enter>y", "two.4", []string{"cancel two.2"}, "two.2"},
		{"neither", ":tasks cancel two<enter>", "two.4 two.2", nil, "agent two works on no task: tasks cancel ID drops one that waits"},
		{"one that has ended", ":tasks cancel two.1<enter>y", "", nil, "task two.1 has ended: merged"},
		{"a text", ":tasks cancel two.4 now<enter>y", "", nil, "takes the ID of one task, and no text"},
		{"a text behind a name", ":tasks cancel two now<enter>y", "", nil, "takes no text"},
		{"no such agent", ":tasks retry nobody<enter>y", "", nil, "there is no agent nobody"},
		{"retry by ID, as polisctl does it", ":tasks retry two.1<enter>", "", []string{"retry two.1"}, "task two.1 is retried as two.9: running"},
		{"retry the lost one", ":tasks retry two<enter>y", "", []string{"retry two.2"}, "two.2 is retried as two.9"},
		{"it names what it chose", ":tasks retry two<enter>", "", nil, "Give two.2 (second) to two again?"},
		{"retry the last that ended", ":tasks retry two<enter>y", "two.2", []string{"retry two.3"}, "two.3 is retried"},
		{"retry a no", ":tasks retry two<enter>n", "", nil, "nothing was done"},
		{"none has ended", ":tasks retry two<enter>", "two.1 two.2 two.3", nil, "no task of agent two has ended"},
		{"on the screen of tasks: the selected one", "jtjj:tasks retry<enter>", "", []string{"retry two.3"}, "tasks of two"},
		{"there it asks before a cancel", "jtj:tasks cancel<enter>y", "", []string{"cancel two.4"}, "task two.4 is cancelled"},
		{"and in its pane", "jtjj<enter>:tasks retry<enter>", "", []string{"retry two.3"}, "output of task two.3"},
		{"there a name is for that agent", "jtjj:tasks cancel two<enter>y", "", []string{"cancel two.4"}, "task two.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := without(busyAgent(), strings.Fields(c.gone)...)
			inBubble(t, f, func(t *testing.T, s *screen) {
				s.keys(c.keys)
				require.Equal(t, c.calls, f.changes())
				require.Contains(t, s.text(), c.says)
				require.NotContains(t, strings.Join(s.m.lines(), "\n"), "\x1b[2J")
				require.Nil(t, s.m.palette)
			})
		})
	}
}

// TestATaskThatBeganMeanwhileIsNotDropped: what a person confirmed is no longer true.
func TestATaskThatBeganMeanwhileIsNotDropped(t *testing.T) {
	f := busyAgent()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys(":tasks cancel two.5<enter>")
		require.Contains(t, s.text(), "Drop two.5")
		f.tasks[5].State = api.TaskRunning
		s.keys("y")
		require.Empty(t, f.changes())
		require.Contains(t, s.text(), "Cancel two.5 (fifth)? Its program is ended")
	})
}

func TestThePaletteNamesTheTaskThatItIsFor(t *testing.T) {
	inBubble(t, busyAgent(), func(t *testing.T, s *screen) {
		s.keys("jtj:")
		require.Contains(t, s.text(), "for two.4, or type NAME or ID behind the words")
		s.keys("<esc><esc>:")
		require.Contains(t, s.text(), "for two, or type NAME behind the words")
	})
}

func TestARewindIsConfirmedWithWhatItChanges(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		calls      []string
		says       string
	}{
		{"of a moment", ":rewind two before task 3<enter>y", []string{"rewind two to s7"}, "2 paths of agent two brought back; polisctl rewind two --to s2 undoes it"},
		{"the question", ":rewind two 5m<enter>", nil, "Rewind two to s7? 2 paths are brought back, which can be undone (polisctl rewind two"},
		{"a no", ":rewind two 5m<enter>n", nil, "nothing was done"},
		{"typed", ":rewind two<enter>5m<enter>y", []string{"rewind two to s7"}, "brought back"},
		{"the last checkpoint", ":rewind<enter><enter>y", []string{"rewind one to s7"}, "2 paths of agent one brought back"},
		{"given up", ":rewind<enter><esc>", nil, "> one"},
		{"nothing differs", ":rewind two same<enter>y", nil, "agent two has the files of s7 already"},
		{"no such agent", ":rewind before task 3<enter>", nil, "there is no agent before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := twoAgents()
			inBubble(t, f, func(t *testing.T, s *screen) {
				s.keys(c.keys)
				require.Equal(t, c.calls, f.changes())
				require.Contains(t, strings.Join(strings.Fields(s.text()), " "), c.says)
				require.Nil(t, s.m.palette)
			})
		})
	}
}
