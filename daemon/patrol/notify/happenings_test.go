package notify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

func TestEventsThatPeopleWaitFor(t *testing.T) {
	task := func(state api.TaskState) map[string]any { return map[string]any{"id": "a.1", "state": state} }
	signal := map[string]any{"signal": api.MergeSignal{ID: "a.1"}}
	seen := map[string]bool{}
	for _, tc := range []struct {
		event     api.Event
		kind, key string
	}{
		{api.Event{Type: api.EventApprovalAsked, Data: map[string]any{"id": "q1"}}, KindQuestion, "q1"},
		{api.Event{Type: api.EventApprovalAnswered, Data: map[string]any{"id": "q1"}}, "", ""},
		{api.Event{Type: api.EventTask, Data: task(api.TaskEnded)}, KindTask, "a.1"},
		{api.Event{Type: api.EventTask, Data: task(api.TaskRunning)}, "", ""},
		{api.Event{Type: api.EventTask, Data: map[string]any{"id": "a.1", "state": api.TaskEnded, "later": true}}, "", ""},
		{api.Event{Type: api.EventTask, Data: map[string]any{"id": "a.1", "via": "input"}}, "", ""},
		{api.Event{Type: api.EventMergeFailed, Code: api.CodeCheckFailed, Data: signal}, KindCheck, "a.1"},
		{api.Event{Type: api.EventMergeFailed, Code: api.CodeMergeConflict, Data: signal}, KindConflict, "a.1"},
		{api.Event{Type: api.EventMergeFailed, Code: api.CodeProtectedPath, Data: signal}, "", ""},
		{api.Event{Type: api.EventMergeFailed, Code: api.CodeCheckFailed}, "", ""},
		{api.Event{Type: api.EventMergeMerged, Data: signal}, "", ""},
		{api.Event{Type: api.EventModelBudget}, KindBudget, ""},
	} {
		kind, key := KindOf(tc.event)
		require.Equal(t, tc.kind, kind, "%+v", tc.event)
		require.Equal(t, tc.key, key, "%+v", tc.event)
		seen[kind] = true
	}
	for _, kind := range config.NotifyKinds() {
		require.True(t, seen[kind], kind)
	}
}
