package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestACommandIsRunForANewQuestion as another user than root, with the question on its standard
// input. Its arguments contain no text of the agent.
func TestACommandIsRunForANewQuestion(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "polis-notices-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	script := fmt.Sprintf(`n=$(ls %[1]s | wc -l); { id -u; echo "$@"; cat; } > %[1]s/.new; mv %[1]s/.new %[1]s/$n`, dir)
	d := startDaemon(t, options{config: fmt.Sprintf("[approvals]\nnotify = [\"/bin/sh\", \"-c\", %q, \"sh\", \"fixed\"]\nnotify_pause = \"0s\"\n", script)})
	d.up()
	d.worker("alice")
	notice := func(n int) (lines []string, v api.Approval) {
		file := fmt.Sprintf("%s/%d", dir, n)
		d.eventually("a notification", func() bool { _, err := os.Stat(file); return err == nil })
		lines = strings.SplitN(readFile(file), "\n", 3)
		require.Len(t, lines, 3)
		var ev struct {
			api.Event
			Data struct{ Question api.Approval } `json:"data"`
		}
		require.NoError(t, json.Unmarshal([]byte(lines[2]), &ev), lines[2])
		require.Equal(t, api.EventApprovalAsked, ev.Type)
		require.Equal(t, ev.Agent, ev.Data.Question.Agent)
		return lines, ev.Data.Question
	}
	asked := d.asking("alice", `polisctl ask -- "$(printf '$(touch /tmp/x)\033[2K; id')"`)
	lines, v := notice(0)
	require.Equal(t, fmt.Sprint(owner), lines[0])
	require.Equal(t, "fixed", lines[1])
	q := d.question("alice")
	require.Equal(t, q.ID, v.ID)
	require.Equal(t, `$(touch /tmp/x)\x1b[2K; id`, v.What)
	d.must("approvals", "approve", q.ID)
	require.Zero(t, (<-asked).code)

	// A rule's answer notifies nobody, and one question sends one notification.
	asked = d.asking("alice", "polisctl ask -- make")
	_, v = notice(1)
	require.Equal(t, "make", v.What)
	d.must("approvals", "approve", v.ID, "--for", "agent")
	<-asked
	require.Zero(t, d.exec("alice", "polisctl", "ask", "--", "make").code)

	asked = d.asking("alice", "polisctl ask -- make world")
	_, v = notice(2)
	require.Equal(t, "make world", v.What)
	d.must("approvals", "deny", v.ID)
	<-asked
	require.Len(t, glob(dir+"/*"), 3)
}

// TestAQuestionShowsWhatAnEditWouldChange, compared with the present file. It follows no symlink
// that the agent puts in the file's place.
func TestAQuestionShowsWhatAnEditWouldChange(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.worker("alice")
	ask := func(input map[string]any) api.Approval {
		b, err := json.Marshal(input)
		require.NoError(t, err)
		asked := d.asking("alice", "polisctl ask --tool Write --input '"+string(b)+"'")
		id := d.question("alice").ID
		show := d.must("--json", "approvals", "show", id)
		var v api.Approval
		require.NoError(t, json.Unmarshal([]byte(show), &v))
		require.Contains(t, d.must("approvals", "show", id), "adds the rule Write(")
		d.must("approvals", "deny", id)
		<-asked
		return v
	}
	d.sh("alice", "echo zero > main.txt; echo one >> main.txt; ln -s /etc/passwd link; mkfifo pipe; ln -s main.txt inner")
	v := ask(map[string]any{"file_path": project + "/main.txt", "content": "zero\ntwo\n"})
	require.Equal(t, "main.txt", v.What)
	require.Equal(t, []string{"--- a/main.txt", "+++ b/main.txt", "@@ -1,2 +1,2 @@", " zero", "-one", "+two"}, v.Diff)
	for _, path := range []string{"/etc/passwd", "link", "inner", "pipe", "src", "../../x", "new"} {
		v = ask(map[string]any{"file_path": path, "content": "x\n"})
		require.Len(t, v.Diff, 5, path)
		require.Contains(t, v.Diff[0], "cannot be compared", path)
	}
}
