package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestTheVerificationOfOrchestration is the list "Verification" of seed 003. The installed programs
// run each line of it. A person has two terminals, one for the answers.
func TestTheVerificationOfOrchestration(t *testing.T) {
	needProgram(t, "tmux")
	d := startDaemon(t, options{config: "[roles.simple-fix.tools]\nauto_approve = [\"read_file\", \"glob\", \"grep\", \"bash\"]\n[patrol]\ninterval = \"0s\"\n"})
	project := d.up()
	person := d.tmux("100", "40", "NO_COLOR=1")
	post := func(path string, body any, save string) string {
		b, err := json.Marshal(body)
		require.NoError(t, err)
		return fmt.Sprintf("curl -sS --unix-socket /run/polis/api.sock -d '%s' http://polis/v1/%s > $HOME/%s\n", b, path, save)
	}
	input := map[string]any{"file_path": "hello.txt", "content": "Hello World\n"}
	script := ident +
		post("permission_request", api.PermissionRequest{Type: "permission_request", RequestID: "r-0", Tool: "read_file", Input: map[string]any{"path": "main.txt"}}, "auto") +
		post("permission_request", api.PermissionRequest{Type: "permission_request", RequestID: "r-1", Tool: "write_file", Input: input}, "response") +
		post("status_update", api.StatusUpdate{Type: "status_update", RequestID: "r-2", Status: "working", Message: "writing hello.txt"}, "update") +
		"grep -q approve $HOME/response; echo 'Hello World' > hello.txt; git add -A; git commit -qm hello\n" +
		"echo READ $(cat $HOME/auto); echo WROTE $(cat $HOME/response)\n" +
		post("task_complete", api.TaskComplete{Type: "task_complete", RequestID: "r-3", Message: "created hello.txt"}, "complete")

	// Integration test: spawn worker, receive permission request, approve, verify completion.
	// E2E test: /delegate feat/test "create a hello.txt file with 'Hello World'".
	person.line("polisctl approvals watch")
	person.shows(`no open questions; waiting`)
	w := d.delegated("feat/test", script, "--role", "simple-fix")

	// Unit tests: worktree creation.
	require.Contains(t, git(t, d.bare(), "worktree", "list"), w.ID)
	q := d.question(w.ID)
	require.Equal(t, "write_file", q.Tool)

	// E2E test: "Approve the write_file permission when prompted".
	person.shows(`question `+q.ID+` of agent `+w.ID, `tool +write_file \(class edit\)`, `\+Hello World`, `adds the rule write_file\(hello.txt\)`)
	person.key("a")
	person.shows(`approved ` + q.ID)

	// Integration test: completion, and its result.
	r := d.ctl("workers", "wait", w.ID)
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "created hello.txt")
	require.Equal(t, "Hello World\n", readFile(project+"/hello.txt"))
	require.Contains(t, d.must("events"), "agent "+w.ID+": writing hello.txt")

	// Unit tests: IPC protocol serialization, of the four types of messages over a real socket.
	log := d.must("agents", "watch", w.ID)
	require.Regexp(t, `READ \{"type":"permission_response","requestId":"r-0","result":"approve"`, log)
	require.Regexp(t, `WROTE \{"type":"permission_response","requestId":"r-1","id":"`+q.ID+`","result":"approve"`, log)

	// E2E test: "/workers  # Should show worker completed".
	require.Contains(t, d.must("workers", "list"), w.ID)
	require.True(t, d.workers()[0].OK)

	// Unit tests: worktree cleanup.
	d.must("workers", "cleanup") // unless polis has removed it already
	require.NotContains(t, git(t, d.bare(), "worktree", "list"), w.ID)
	require.Contains(t, d.must("workers", "list"), "removed")
}
