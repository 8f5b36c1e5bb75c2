package pullrequest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTheTextIsOfTheTasksThatMadeTheCommits(t *testing.T) {
	ended := func(prompt string, commits int, head string) api.Task {
		return api.Task{Prompt: prompt, State: api.TaskEnded, Commits: commits, Head: head, Base: "before"}
	}
	own := map[string]bool{"one": true, "two": true, "tip": true}
	merged := ended("merged", 1, "old")
	merged.Outcome = api.OutcomeMerged
	sent := ended("sent", 1, "one")
	sent.Via = "send"
	running := func(base string) api.Task { return api.Task{Prompt: "runs", State: api.TaskRunning, Base: base} }
	for name, c := range map[string]struct {
		tasks []api.Task
		want  []string
	}{
		"none":                              {},
		"the last one only looked":          {[]api.Task{ended("write", 1, "tip"), ended("explain", 0, "tip")}, []string{"write"}},
		"two made them":                     {[]api.Task{ended("write", 1, "one"), ended("look", 0, "one"), ended("test", 1, "tip")}, []string{"write", "test"}},
		"one before was merged":             {[]api.Task{merged, ended("write", 1, "tip")}, []string{"write"}},
		"no task made them":                 {[]api.Task{merged, ended("explain", 0, "tip")}, nil},
		"its commit was amended":            {[]api.Task{merged, ended("write", 1, "amended"), ended("explain", 0, "tip")}, []string{"write"}},
		"a text that was sent is no task":   {[]api.Task{sent}, nil},
		"one that runs has committed":       {[]api.Task{ended("write", 1, "one"), running("one")}, []string{"write", "runs"}},
		"one that runs has not committed":   {[]api.Task{ended("write", 1, "tip"), running("tip")}, []string{"write"}},
		"one that is queued made no commit": {[]api.Task{{Prompt: "later", State: api.TaskQueued}}, nil},
	} {
		require.Equal(t, c.want, madeBy(c.tasks, own, "tip"), name)
	}
	many := make([]api.Task, 3*maxTasks)
	for i := range many {
		many[i] = ended("again", 1, "one")
	}
	require.Len(t, madeBy(many, own, "tip"), maxTasks)
}
