package steps

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestUpdatesOfAnACPSessionAreSteps, as the protocol has them.
func TestUpdatesOfAnACPSessionAreSteps(t *testing.T) {
	text := `{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I am "}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"at it."}}
{"sessionUpdate":"tool_call","toolCallId":"1","title":"Write a","kind":"edit","status":"pending","rawInput":{"file_path":"/p/a.txt"}}
{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}
{"sessionUpdate":"tool_call","toolCallId":"2","title":"make deploy","kind":"execute"}
{"type":"permission","toolCallId":"2","result":"deny","reason":"not today"}
{"sessionUpdate":"tool_call","toolCallId":"3","title":"Read b","kind":"read","locations":[{"path":"/p/b.txt"}]}
{"sessionUpdate":"tool_call_update","toolCallId":"3","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no such file"}}]}
{"sessionUpdate":"tool_call","toolCallId":"4","title":"todo","kind":"think"}
{"type":"permission","toolCallId":"4","result":"approve"}
not json
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}
{"type":"result","stopReason":"max_tokens"}
{"type":"error","message":"session/prompt: broken"}
`
	want := "I am at it.\n* edit     a.txt\n* command  make deploy\n* failed   make deploy: not approved: not today\n* read     b.txt\n* failed   read b.txt: no such file\n" +
		"* tool     todo\nnot json\nDone.\n* failed   the turn ended by max_tokens\n* failed   session/prompt: broken\n"
	for _, n := range []int{1, 7, len(text)} {
		s := New("acp")
		s.Root = "/p"
		require.Equal(t, want, read(s, text, n))
		require.Equal(t, &api.TaskReport{Answer: "Done.", Error: "session/prompt: broken"}, s.Report())
	}
}
