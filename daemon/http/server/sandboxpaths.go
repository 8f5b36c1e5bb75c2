package server

import (
	"reflect"

	"polis/daemon/api"
)

// sandboxPaths describes the messages of agents' programs to /run/polis/api.sock, which the shim
// serves (package shim).
func (b *describer) sandboxPaths() object {
	out := object{}
	for _, m := range []struct {
		path, about string
		in, out     any
	}{
		{"/v1/permission_request", "ask for a permission, and wait for the answer", api.PermissionRequest{}, api.PermissionResponse{}},
		{"/v1/tool_done", "tell that a call of a tool has ended: what its approval covers ends, too", api.ToolDone{}, api.ToolEnded{}},
		{"/v1/status_update", "report the progress of the agent", api.StatusUpdate{}, api.StatusUpdated{}},
		{"/v1/task_complete", "end the agent's task", api.TaskComplete{}, api.DoneResponse{}},
		{"/v1/workers", "delegate a task to a worker, and list, get, cancel and remove workers of the agent", api.WorkersRequest{}, api.WorkersResponse{}},
		{"/v1/said", "the next text that a person said to the agent, and that the agent takes it", api.SaidRequest{}, api.SaidResponse{}},
		{"/v1/timeline", "list the agent's own checkpoints, make one, and go back to one", api.TimelineRequest{}, api.TimelineResponse{}},
	} {
		out[m.path] = object{"post": object{"summary": m.about, "responses": b.responses(shape{out: m.out}),
			"requestBody": object{"required": true, "content": content("application/json", b.schema(reflect.TypeOf(m.in)))}}}
	}
	return out
}
