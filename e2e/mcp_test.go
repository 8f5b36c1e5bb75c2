package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// mcpModel calls tools of the MCP server in an agent's sandbox, as an agent's program does.
type mcpModel struct {
	t       testing.TB
	session *mcp.ClientSession
}

func (d *daemon) model(agent string) *mcpModel {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.Command(filepath.Join(d.bin, "polisctl"), "--socket", d.path("run", "polisd.sock"), "agents", "exec", agent, "--", "polisctl", "mcp")
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(d.t, err)
	return &mcpModel{d.t, s}
}

// call returns the text of the answer, and whether it is an error.
func (m *mcpModel) call(tool string, args map[string]any) (string, bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	res, err := m.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	require.NoError(m.t, err, tool)
	var b strings.Builder
	for _, c := range res.Content {
		text, ok := c.(*mcp.TextContent)
		require.True(m.t, ok, "%T", c)
		b.WriteString(text.Text)
	}
	return b.String(), res.IsError
}

func (m *mcpModel) must(tool string, args map[string]any) string {
	m.t.Helper()
	text, failed := m.call(tool, args)
	require.False(m.t, failed, "%s: %s", tool, text)
	return text
}

// TestAModelCallsPolisByMCP, with the official client, in a real sandbox.
func TestAModelCallsPolisByMCP(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"fail\"\n[roles.worker]\ndeny = [\"secret/**\"]\n[roles.worker.tools]\nauto_approve = [\"read\"]\n"})
	d.up()
	d.worker("alice", "--role", "worker")
	d.worker("bob")
	m := d.model("alice")
	list, err := m.session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	require.ElementsMatch(t, []string{"status_update", "task_complete", "why", "wait", "lock", "unlock", "approval"}, names)

	// What was refused, and the turn for a file.
	require.Equal(t, "nothing was refused yet", m.must("why", nil))
	d.must("lock", "main.txt", "--agent", "bob", "--reason", "mine")
	d.exec("alice", "sh", "-c", "echo x > main.txt; mkdir -p secret")
	why := m.must("why", nil)
	require.Contains(t, why, `"main.txt": FILE_LOCKED (EBUSY); holder: bob`)
	text, failed := m.call("wait", map[string]any{"path": "main.txt", "seconds": 1})
	require.True(t, failed)
	require.Contains(t, text, "TIMEOUT: main.txt is still locked by bob")
	d.must("unlock", "main.txt", "--agent", "bob")
	a, _ := d.agent("alice")
	require.Contains(t, m.must("wait", map[string]any{"path": a.ProjectPath + "/main.txt"}), "main.txt is free")
	require.Contains(t, m.must("lock", map[string]any{"path": "other.txt", "reason": "mine"}), "other.txt is locked for you")
	d.heldBy("alice", "other.txt")
	m.must("unlock", map[string]any{"path": "other.txt"})
	text, failed = m.call("lock", map[string]any{"path": "secret/a"})
	require.True(t, failed)
	require.Contains(t, text, "UNDECLARED_WRITE")
	text, failed = m.call("lock", map[string]any{"path": "/etc/passwd"})
	require.True(t, failed)
	require.Contains(t, text, "PATH_TRAVERSAL")

	// A permission prompt: a rule decides, and then people do.
	prompt := func(tool string, input map[string]any) (out struct {
		Behavior, Message string
		UpdatedInput      map[string]any `json:"updatedInput"`
		Interrupt         bool
	}) {
		require.NoError(t, json.Unmarshal([]byte(m.must("approval", map[string]any{"tool_name": tool, "input": input})), &out))
		return out
	}
	got := prompt("Read", map[string]any{"file_path": "main.txt"})
	require.Equal(t, "allow", got.Behavior)
	require.Equal(t, "main.txt", got.UpdatedInput["file_path"])
	answered := make(chan struct{})
	go func() { defer close(answered); got = prompt("Bash", map[string]any{"command": "make deploy"}) }()
	d.must("approvals", "abort", d.question("alice").ID, "never")
	<-answered
	require.Equal(t, "deny", got.Behavior)
	require.Equal(t, "never", got.Message)
	require.True(t, got.Interrupt)

	// The end of a task is accepted once.
	text, failed = m.call("task_complete", map[string]any{"message": "x"})
	require.True(t, failed, "there is no task")
	require.Contains(t, text, "BAD_STATE")
	d.must("agents", "run", "alice", "touch $HOME/began; while :; do sleep 0.1; done")
	d.eventually("the task has begun", func() bool { _, err := os.Stat(d.home("alice", "began")); return err == nil })
	m.must("status_update", map[string]any{"status": "thinking", "message": "half of it", "currentTool": "Bash"})
	d.eventually("it is an event", func() bool { return strings.Contains(d.must("events"), "agent alice: half of it") })
	require.Contains(t, m.must("task_complete", map[string]any{"message": "all of it"}), "has ended")
	require.Contains(t, m.must("task_complete", map[string]any{"message": "again"}), "had ended already")
	last := d.settled("alice")
	require.Equal(t, api.EndComplete, last.EndedBy)
	require.Equal(t, "all of it", last.Message)
	require.NoError(t, m.session.Close())

	require.Contains(t, d.refused(api.CodeBadState, "mcp").Message, "mcp is for agents")
}
