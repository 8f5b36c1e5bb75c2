package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// callsTools is a program that runs the hook of its managed configuration after each call of a tool, as
// Claude Code does: one call for each file call.N that appears. One that is not empty is a subagent's.
const callsTools = `#!/bin/sh
hook=$(sed -n 's/.*"command": "\(.*\)",/\1/p' /etc/claude-code/managed-settings.d/polis-say.json)
n=1
while ! test -e end; do
	if test -e call.$n; then
		of=$(cat call.$n)
		echo '{"hook_event_name":"PostToolUse",'"$of"'"tool_name":"Bash","tool_input":{}}' | sh -c "$hook" >answer.tmp
		echo "status $?" >>answer.tmp
		mv answer.tmp answer.$n
		n=$((n+1))
	fi
	sleep 0.02
done
echo "$@" >>turns
rm -f end
`

// TestATextIsDeliveredAtTheNextToolCall, once, also if polisd is restarted in between; one that no call
// takes is the next task of the same conversation.
func TestATextIsDeliveredAtTheNextToolCall(t *testing.T) {
	o := standIns(t, "claude")
	dir := strings.Split(o.box, `"`)[1]
	require.NoError(t, os.Remove(filepath.Join(dir, "claude")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "claude"), []byte(callsTools), 0o755))
	d := startDaemon(t, o)
	d.up()
	d.must("agents", "add", "ann", "--base", "claude")
	call := func(n, of string) string {
		t.Helper()
		d.sh("ann", "printf %s '"+of+"' >new; mv new call."+n)
		d.eventually("the answer of call "+n, func() bool { return d.exec("ann", "test", "-e", "answer."+n).code == 0 })
		return d.sh("ann", "cat answer."+n)
	}
	d.must("run", "--detach", "--model", "large", "ann", "first")
	require.Equal(t, "status 0\n", call("1", ""))
	r := d.said("ann", "use the \"store\"\nplease")
	require.Equal(t, "agent ann gets it at its next tool call; if it makes none, it is ann.2 after ann.1 ends, in the same conversation", r.Message)
	require.Equal(t, "status 0\n", call("2", `"agent_id":"a1",`), "it is for the main agent")
	require.NoError(t, d.signalRestart())
	got := call("3", "")
	var answer struct {
		Output struct{ HookEventName, AdditionalContext string } `json:"hookSpecificOutput"`
	}
	text, status, _ := strings.Cut(got, "status")
	require.Equal(t, " 0\n", status)
	require.NoError(t, json.Unmarshal([]byte(text), &answer), got)
	require.Equal(t, "PostToolUse", answer.Output.HookEventName)
	require.True(t, strings.HasSuffix(answer.Output.AdditionalContext, "\n\nuse the \"store\"\nplease"), got)
	require.Contains(t, answer.Output.AdditionalContext, "(user:0)")
	require.Equal(t, "delivered to ann.1", d.taskRecord("ann.2").Result)
	require.Equal(t, "status 0\n", call("4", ""))

	// Without polisd a call is not held up, and nothing is lost.
	d.said("ann", "and then this")
	require.NoError(t, d.signalRestart())
	d.sh("ann", "rm -f call.* answer.*; touch end")
	d.eventually("the text to be a task", func() bool { return d.taskRecord("ann.3").State == api.TaskRunning })
	d.sh("ann", "touch end")
	d.eventually("it to end", func() bool { return d.taskRecord("ann.3").State == api.TaskEnded })
	turns := d.sh("ann", "cat turns")
	require.Equal(t, 2, strings.Count(turns, "\n"), turns)
	require.Contains(t, turns, "--continue")
	require.Equal(t, 2, strings.Count(turns, "--model large"), "the conversation continues with its model: %s", turns)
	require.Equal(t, 1, strings.Count(turns, "and then this"))
	require.NotContains(t, turns, "store")
	found := false
	for _, s := range d.taskRecord("ann.1").Steps {
		found = found || s.Kind == api.StepSaid && strings.Contains(s.Text, "by user:0: use the")
	}
	require.True(t, found, "it is a step of the task that got it")
}
